"""Who we are to a registry: the `auths` of a Docker or containers config file.

The file's shape is Docker's config.json (docker/cli) and containers-auth.json (containers/image).
No credential helper is run: that would start a program which a file names.
"""

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path

import msgspec

from catalogs.sources.base import SourceError
from catalogs.sources.oci.reference import DOCKER_HUB, Reference

_LONGEST = 1 << 20
_HUB_NAMES = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io")


class _Auth(msgspec.Struct):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _Config(msgspec.Struct):
    auths: dict[str, _Auth] | None = None
    credHelpers: dict[str, str] | None = None
    credsStore: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """`user` and `password`, or `identity` (a refresh token), or none of them. `helper` is the
    program that the file would have us run, `file` where they come from."""

    user: str = ""
    password: str = ""
    identity: str = ""
    helper: str = ""
    file: str = ""

    @property
    def known(self) -> bool:
        return bool(self.user or self.identity)

    @property
    def basic(self) -> str:
        """Value of an Authorization header."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def __repr__(self) -> str:  # no secret in a log
        return f"Credentials(user={self.user!r}, file={self.file!r})"


def credentials_for(reference: Reference, file: Path | None) -> Credentials:
    """What the file says about the image's registry: the entry of the longest path wins. A file
    that isn't there says nothing. Raises SourceError for one that can't be read."""
    if file is None:
        return Credentials()
    try:
        data = file.read_bytes()[:_LONGEST]
    except FileNotFoundError:
        return Credentials(file=str(file))
    except OSError as error:
        raise _unusable(file, f"can't be read: {error.strerror}") from error
    try:
        config = msgspec.json.decode(data, type=_Config)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # Its message names a place and types, never a value.
        raise _unusable(file, f"is no such file: {error}") from error
    auths = {_plain(key): auth for key, auth in (config.auths or {}).items()}
    for name in _names(reference):
        if name in auths:
            found = _decode(auths[name], name, file)
            if found.known:
                return found
    helpers = config.credHelpers or {}
    helper = next((helpers[n] for n in _names(reference) if n in helpers), config.credsStore)
    return Credentials(helper=helper, file=str(file))


def _names(reference: Reference) -> list[str]:
    """Keys that speak of the image, the most exact first."""
    hosts = _HUB_NAMES if reference.registry == DOCKER_HUB else (reference.registry,)
    parts = reference.repository.split("/")
    paths = ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    return [f"{host}/{path}" for path in paths for host in hosts] + list(hosts)


def _plain(key: str) -> str:
    """A key without the scheme and the API's path that old files have."""
    key = key.removeprefix("https://").removeprefix("http://").rstrip("/")
    return key.removesuffix("/v1").removesuffix("/v2")


def _decode(auth: _Auth, name: str, file: Path) -> Credentials:
    user, password = auth.username, auth.password
    if auth.auth:
        try:
            pair = base64.b64decode(auth.auth, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise _unusable(file, f'has an "auth" for {name} that is no base64 text') from None
        user, _, password = pair.partition(":")
        password = password.rstrip("\0")
    return Credentials(user, password, auth.identitytoken, file=str(file))


def _unusable(file: Path, why: str) -> SourceError:
    return SourceError(
        f"The file with credentials of registries, {file}, {why}.",
        code="credentials-file",
        hint="REGISTRY_AUTH_FILE or DOCKER_CONFIG name it; it has the shape of Docker's "
        "config.json.",
    )
