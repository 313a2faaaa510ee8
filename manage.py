#!/usr/bin/env python
"""Command line of OLM Web."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")
    import django
    from django.core.management import ManagementUtility
    from django.db import OperationalError, ProgrammingError

    try:
        utility = ManagementUtility(sys.argv)
        if sys.argv[1:2] == ["version"]:
            # `execute` answers this one word with Django's version.
            django.setup()
            utility.fetch_command("version").run_from_argv(sys.argv)
        else:
            utility.execute()
    except (OperationalError, ProgrammingError) as error:
        if "--traceback" in sys.argv:
            raise
        told = str(error).strip().split("\n", 1)[0].rstrip(".")
        sys.exit(
            f"The database can't be used: {told}. "
            "Check DATABASE_URL and the database, and run `manage.py migrate`."
        )


if __name__ == "__main__":
    main()
