"""`python -m olmweb.cli`: the console script without its installation."""

from olmweb.cli.main import main

if __name__ == "__main__":
    main()
