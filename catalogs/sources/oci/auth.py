"""Authentication at a registry: credentials from a config file, the challenge of a 401, tokens.

The file is Docker's config.json (docker/cli) or containers-auth.json (containers/image). Credential
helpers are not run: they are programs named by a file. Tokens follow distribution's specification:
GET with basic credentials, or POST with a refresh token ("identitytoken" of `docker login`).
"""

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from catalogs.sources import guard
from catalogs.sources.base import SourceError
from catalogs.sources.http import READ
from catalogs.sources.oci.reference import DOCKER_HUB, ImageReference

_LONGEST = 1 << 20
_HUB_NAMES = (DOCKER_HUB, "index.docker.io", "registry-1.docker.io")
_SCHEME = re.compile(r"(?:^|,)\s*(bearer|basic)(?=\s|$)", re.IGNORECASE)
_FIELD = re.compile(r'([a-z_]+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))', re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+")


class _Auth(msgspec.Struct):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _CredentialsFile(msgspec.Struct):
    auths: dict[str, _Auth] | None = None
    credHelpers: dict[str, str] | None = None
    credsStore: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """`user` and `password`, or `identity` (a refresh token), or none. `helper` is the credential
    helper in `file`, their origin."""

    user: str = ""
    password: str = ""
    identity: str = ""
    helper: str = ""
    file: str = ""

    @property
    def complete(self) -> bool:
        return bool(self.user or self.identity)

    @property
    def basic(self) -> str:
        """Value of an Authorization header."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def __repr__(self) -> str:  # no secret in a log
        return f"Credentials(user={self.user!r}, file={self.file!r})"


def credentials_for(reference: ImageReference, file: Path | None) -> Credentials:
    """The credentials for the image's registry: the entry with the longest path wins. A missing
    file has none. Raises SourceError for an unreadable file."""
    if file is None:
        return Credentials()
    try:
        data = file.read_bytes()[:_LONGEST]
    except FileNotFoundError:
        return Credentials(file=str(file))
    except OSError as error:
        raise _unusable(file, f"can't be read: {error.strerror}") from error
    try:
        config = msgspec.json.decode(data, type=_CredentialsFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # The message has a position and types, never a value.
        raise _unusable(file, f"is no such file: {error}") from error
    auths = {_plain(key): auth for key, auth in (config.auths or {}).items()}
    for name in _names(reference):
        if name in auths:
            credentials = _decode(auths[name], name, file)
            if credentials.complete:
                return credentials
    helpers = config.credHelpers or {}
    helper = next((helpers[n] for n in _names(reference) if n in helpers), config.credsStore)
    return Credentials(helper=helper, file=str(file))


def _names(reference: ImageReference) -> list[str]:
    """Keys of `auths` that apply to the image, the most specific first."""
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


@dataclass(frozen=True, slots=True)
class Challenge:
    """`scheme` is "bearer", "basic" or ""; `realm` is the token server, `service` its audience."""

    scheme: str
    realm: str = ""
    service: str = ""


class _TokenAnswer(msgspec.Struct):
    token: str | None = None
    access_token: str | None = None


def read_challenge(header: str) -> Challenge:
    """The supported challenge of a WWW-Authenticate header, a token's before a password's."""
    schemes = list(_SCHEME.finditer(header))
    best = Challenge("")
    for number, at in enumerate(schemes, 1):
        end = schemes[number].start() if number < len(schemes) else len(header)
        part = header[at.end() : end]
        fields = {name.lower(): quoted or plain for name, quoted, plain in _FIELD.findall(part)}
        scheme = at[1].lower()
        if scheme == "bearer" or not best.scheme:
            best = Challenge(scheme, fields.get("realm", ""), fields.get("service", ""))
    return best


def fetch_token(
    challenge: Challenge,
    scope: str,
    credentials: Credentials,
    rules: guard.Rules,
    *,
    plain: bool,
    seconds: float,
) -> tuple[int, str]:
    """Status of the token server's answer, and the token ("" when there is none).

    `plain` allows a realm of plain http, for a registry that speaks it, too. `seconds` is the time
    for all. Raises SourceError
    for a realm that is not allowed, Cut when it doesn't answer.
    """
    if guard.parse(challenge.realm).scheme == "http" and not plain:
        raise guard.refused(
            challenge.realm, "is plain http, where an https registry has its tokens"
        )
    query = {"service": challenge.service, "scope": scope}
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if credentials.identity:
        form = {**query, "grant_type": "refresh_token", "refresh_token": credentials.identity}
        body = urlencode({**form, "client_id": "olmweb"}).encode()
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        opened = guard.request("POST", challenge.realm, headers, rules, body=body, seconds=seconds)
    else:
        if credentials.user:
            headers["Authorization"] = credentials.basic
        parts = urlsplit(challenge.realm)
        parameters = "&".join(filter(None, (parts.query, urlencode(query))))
        url = urlunsplit(parts._replace(query=parameters, fragment=""))
        opened = guard.request("GET", url, headers, rules, seconds=seconds)
    with opened as answer:
        if answer.status != 200:
            return answer.status, ""
        stream, data = guard.ResponseBody(answer), b""
        while len(data) < _LONGEST and (chunk := stream.read(READ)):
            data += chunk
    try:
        tokens = msgspec.json.decode(data, type=_TokenAnswer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 200, ""
    token = tokens.token or tokens.access_token or ""
    return 200, token if _TOKEN.fullmatch(token) else ""
