"""The examples of docs/api.md: their commands, and how to run them."""

import os
import re
import subprocess
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User

from olmweb.models import ApiToken

TEXT = (settings.BASE_DIR / "docs/api.md").read_text()


def example(title: str) -> str:
    """The commands below a heading."""
    match = re.search(rf"### {title}\n.*?```sh\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None, title
    return match[1]


def run(commands: str, server: str, user: User, folder: Path, **values: str) -> str:
    token = ApiToken.issue(user.pk, "act")[0]
    variables = {"PATH": os.environ["PATH"], "OLMWEB": server, "TOKEN": token, **values}
    result = subprocess.run(
        ["sh", "-euc", commands],
        env=variables, cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout
