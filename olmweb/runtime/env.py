"""Strict reading of the environment: every problem is collected, then raised once. Pure."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class EnvError(Exception):
    """One or more settings are wrong; the message has a sentence for each."""


class Env:
    """Reader over a mapping of environment variables.

    Every read name is remembered, so `finish` can refuse names with `prefix` that nobody read
    (a misspelt setting would otherwise be ignored silently). Names that start with `ignore` are not
    checked.
    """

    def __init__(self, environ: Mapping[str, str], prefix: str, ignore: str) -> None:
        self._environ = environ
        self._prefix = prefix
        self._ignore = ignore
        self.names: set[str] = set()
        self._reserved: set[str] = set()
        self._problems: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """Value of `NAME`, else the content of the file that `NAME_FILE` names, else `default`."""
        self.names.add(name)
        value = self._environ.get(name)
        file = self._environ.get(f"{name}_FILE")
        if value is not None and file is not None:
            self._problems.append(f"{name} and {name}_FILE are both set; set only one of them.")
        if value is None and file is not None:
            try:
                value = Path(file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                self._problems.append(f"{name}_FILE names {file}, which can't be read: {error}.")
        return default if value is None else value

    def reserve(self, *names: str) -> None:
        """Allows these names, which another program reads."""
        self._reserved.update(names)

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name, "true" if default else "false").lower()
        if value in ("true", "1", "yes"):
            return True
        if value in ("false", "0", "no"):
            return False
        self._problems.append(f'{name} must be "true" or "false", not "{value}".')
        return default

    def integer(self, name: str, default: int, minimum: int = 0) -> int:
        value = self.text(name, str(default))
        if re.fullmatch(r"\d{1,9}", value) and int(value) >= minimum:
            return int(value)
        self._problems.append(f'{name} must be a whole number from {minimum} up, not "{value}".')
        return default

    def seconds(self, name: str, default: str) -> int:
        """A duration such as `30s`, `10m`, `2h` or `1d`, in seconds."""
        value = self.text(name, default)
        match = re.fullmatch(r"(\d{1,7})([smhd])", value)
        if match:
            return int(match[1]) * _UNITS[match[2]]
        self._problems.append(
            f'{name} must be a duration such as 30s, 10m, 2h or 1d, not "{value}".'
        )
        return 0

    def size(self, name: str, default: str) -> int:
        """A number of bytes such as `512MiB` or `4GiB`."""
        value = self.text(name, default)
        match = re.fullmatch(r"([1-9]\d{0,6})(MiB|GiB)", value)
        if match:
            return int(match[1]) * 1024 ** (2 if match[2] == "MiB" else 3)
        self._problems.append(f'{name} must be a size such as 512MiB or 4GiB, not "{value}".')
        return 0

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self.text(name, default)
        if value in choices:
            return value
        self._problems.append(f'{name} must be one of {", ".join(choices)}, not "{value}".')
        return default

    def listing(self, name: str, default: str = "") -> list[str]:
        """Comma-separated values, blanks dropped."""
        return [part.strip() for part in self.text(name, default).split(",") if part.strip()]

    def redis_url(self, name: str) -> str:
        """Address of a Redis server. With `rediss` its certificate is verified unless the address
        has an `ssl_cert_reqs` of its own: without it kombu, the broker's client, verifies none."""
        value = self.text(name)
        parts = urlsplit(value)
        if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
            return value
        query = "&".join(filter(None, (parts.query, "ssl_cert_reqs=required")))
        return urlunsplit(parts._replace(query=query))

    def problem(self, sentence: str) -> None:
        """Records a problem that only the caller can see (two settings that don't go together)."""
        self._problems.append(sentence)

    def finish(self) -> None:
        """Raises EnvError if anything was wrong, unknown names with the prefix included."""
        known = self.names | self._reserved
        names = known | {f"{name}_FILE" for name in known}
        for name in sorted(self._environ):
            ours = name.startswith(self._prefix) and not name.startswith(self._ignore)
            if ours and name not in names:
                self._problems.append(
                    f"{name} is not a setting of OLM Web; check its spelling or remove it."
                )
        if self._problems:
            raise EnvError("\n".join(self._problems))
