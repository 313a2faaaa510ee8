"""How a registry wants to be asked: the challenge of its 401, and the token it sends one to fetch.

Mirrors distribution's token specification: GET with basic credentials, or a POST that gives a
refresh token (what `docker login` keeps as "identitytoken").
"""

import re
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from catalogs.sources import guard
from catalogs.sources.http import READ
from catalogs.sources.oci.credentials import Credentials

_LONGEST = 1 << 20
_SCHEME = re.compile(r"(?:^|,)\s*(bearer|basic)(?=\s|$)", re.IGNORECASE)
_FIELD = re.compile(r'([a-z_]+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))', re.IGNORECASE)
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Challenge:
    """`scheme` is "bearer", "basic" or ""; `realm` where tokens are, `service` for whom."""

    scheme: str
    realm: str = ""
    service: str = ""


class _Answer(msgspec.Struct):
    token: str | None = None
    access_token: str | None = None


def read_challenge(header: str) -> Challenge:
    """The one of the header's challenges that we can meet, a token's before a password's."""
    found = list(_SCHEME.finditer(header))
    best = Challenge("")
    for number, at in enumerate(found, 1):
        end = found[number].start() if number < len(found) else len(header)
        part = header[at.end() : end]
        fields = {name.lower(): one or other for name, one, other in _FIELD.findall(part)}
        scheme = at[1].lower()
        if scheme == "bearer" or not best.scheme:
            best = Challenge(scheme, fields.get("realm", ""), fields.get("service", ""))
    return best


def fetch_token(
    challenge: Challenge, scope: str, who: Credentials, rules: guard.Rules, *, plain: bool
) -> tuple[int, str]:
    """Status of the token server's answer, and the token ("" when there is none).

    `plain` allows a realm of plain http, for a registry that is asked so itself. Raises
    SourceError for a realm that may not be asked, Cut when it doesn't answer.
    """
    if guard.parse(challenge.realm).scheme == "http" and not plain:
        raise guard.refused(
            challenge.realm, "is plain http, where an https registry has its tokens"
        )
    asked = {"service": challenge.service, "scope": scope}
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if who.identity:
        form = {**asked, "grant_type": "refresh_token", "refresh_token": who.identity}
        body = urlencode({**form, "client_id": "olmweb"}).encode()
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        opened = guard.request("POST", challenge.realm, headers, rules, body=body)
    else:
        if who.user:
            headers["Authorization"] = who.basic
        parts = urlsplit(challenge.realm)
        query = "&".join(filter(None, (parts.query, urlencode(asked))))
        url = urlunsplit(parts._replace(query=query, fragment=""))
        opened = guard.request("GET", url, headers, rules)
    with opened as answer:
        if answer.status != 200:
            return answer.status, ""
        stream, data = guard.Body(answer), b""
        while len(data) < _LONGEST and (chunk := stream.read(READ)):
            data += chunk
    try:
        told = msgspec.json.decode(data, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 200, ""
    token = told.token or told.access_token or ""
    return 200, token if _TOKEN.fullmatch(token) else ""
