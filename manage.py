#!/usr/bin/env python
"""Command line of OLM Web."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    try:
        execute_from_command_line(sys.argv)
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
