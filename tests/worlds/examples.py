"""The examples of the documents: their commands, and how to run them."""

import os
import re
import subprocess
from pathlib import Path

from django.conf import settings

DOCS = settings.BASE_DIR / "docs"


def examples(title: str, document: str = "api.md", language: str = "sh") -> list[str]:
    """The blocks of code below a heading of a document, in their order."""
    text = (DOCS / document).read_text(encoding="utf-8")
    chapter = re.search(
        rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", text, re.DOTALL | re.MULTILINE
    )
    blocks = re.findall(rf"```{language}\n(.*?)```", chapter[1], re.DOTALL) if chapter else []
    assert blocks, f"{document} has no example below {title}"
    return blocks


def run(commands: str, server: str, token: str, folder: Path, **values: str) -> str:
    """What the commands of an example print, with `values` as variables of the shell."""
    variables = {"PATH": os.environ["PATH"], "OLMWEB": server, "TOKEN": token, **values}
    result = subprocess.run(
        ["sh", "-euc", commands],
        env=variables, cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout
