"""Sign-in by OpenID Connect: the provider's word checked, and made a person with a role.

The code flow (state, nonce, PKCE, exchange) is mozilla-django-oidc's; what it leaves to its user is
here: discovery at sign-in, issuer, audience and times of the ID token, whose account it is, and the
groups. Everything that can go wrong is an OlmwebError. Must not know pages.
"""

from dataclasses import dataclass
from typing import Any

import jwt
import msgspec
import requests
import structlog
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from olmweb.accounts.oidc_settings import OidcSettings, is_safe_address
from olmweb.accounts.roles import ROLES
from olmweb.errors import OlmwebError
from olmweb.models import OidcIdentity

log = structlog.get_logger(__name__)

TIMEOUT = 5  # seconds for each answer of the provider: a person waits
LEEWAY = 30  # seconds that the two clocks may differ
DOCUMENT_LIMIT = 1_000_000  # bytes
# Signed with a key that only the provider has; never "none", never one made from our secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
NAME_LIMIT = 150


class Provider(msgspec.Struct, frozen=True):
    """What of a discovery document is used (OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


@dataclass(frozen=True, slots=True)
class Claims:
    """Who the provider says this is. `groups` are the provider's own."""

    subject: str
    username: str
    groups: tuple[str, ...]
    groups_told: bool  # whether there was a claim of groups at all
    email: str = ""


def configured() -> OidcSettings:
    """The settings. Raises OlmwebError (404) where OpenID Connect is off."""
    found: OidcSettings | None = settings.OIDC
    if found is None:
        raise OlmwebError(
            "Sign-in by OpenID Connect is not set up here.",
            code="oidc-off",
            status=404,
            hint="Sign in with a user name and password.",
        )
    return found


def discover(issuer: str) -> Provider:
    """The provider's discovery document, read now. Raises OlmwebError (502) with a sentence."""
    address = f"{issuer}/.well-known/openid-configuration"
    try:
        with requests.get(address, timeout=TIMEOUT, allow_redirects=False, stream=True) as response:
            body = response.raw.read(DOCUMENT_LIMIT, decode_content=True)
            status = response.status_code
    except (requests.RequestException, OSError) as error:
        raise down(issuer, error) from error
    if status != 200:
        raise _broken(issuer, f"answers {status} at /.well-known/openid-configuration")
    try:
        found = msgspec.json.decode(body, type=Provider)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(issuer, "has a discovery document that can't be read") from error
    if found.issuer.rstrip("/") != issuer:
        raise _broken(issuer, "calls itself by another address in its discovery document")
    used = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
    optional = tuple(filter(None, (found.userinfo_endpoint, found.end_session_endpoint)))
    if not all(map(is_safe_address, used + optional)):
        raise _broken(issuer, "names an address in its discovery document that is not https")
    return found


def down(issuer: str, error: Exception) -> OlmwebError:
    """The sentence for a provider that does not answer."""
    log.warning("oidc provider does not answer", issuer=issuer, error=type(error).__name__)
    return OlmwebError(
        f"The sign-in provider {issuer} does not answer.",
        code="oidc-down",
        status=502,
        retryable=True,
        hint="Try again in a moment, or sign in with a user name and password.",
    )


def _broken(issuer: str, what: str) -> OlmwebError:
    log.warning("oidc provider is broken", issuer=issuer, what=what)
    return OlmwebError(
        f"The sign-in provider {issuer} {what}.",
        code="oidc-broken",
        status=502,
        hint="Tell an administrator of OLM Web; OLMWEB_OIDC_ISSUER may be wrong.",
    )


def _refused(why: str, hint: str = "Sign in again; if it stays, tell an administrator.") -> Any:
    return OlmwebError(why, code="oidc-refused", status=403, hint=hint)


class OidcBackend(OIDCAuthenticationBackend):  # type: ignore[misc]
    """Django's authentication backend. Permissions are ModelBackend's, which stands beside it."""

    def __init__(self) -> None:
        # Made for every request of a signed-in person, so nothing is read here.
        self.UserModel = User

    def authenticate(
        self, request: HttpRequest, *, nonce: str, code_verifier: str | None
    ) -> User | None:
        """The person of this callback. Raises OlmwebError; calls the provider up to four times."""
        told = configured()
        self.told, self.provider = told, discover(told.issuer)
        self.OIDC_RP_CLIENT_ID = told.client_id
        self.OIDC_RP_CLIENT_SECRET = told.client_secret
        self.OIDC_OP_TOKEN_ENDPOINT = self.provider.token_endpoint
        self.OIDC_OP_JWKS_ENDPOINT = self.provider.jwks_uri
        self.OIDC_OP_USER_ENDPOINT = self.provider.userinfo_endpoint
        try:
            user: User | None = super().authenticate(
                request, nonce=nonce, code_verifier=code_verifier
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            raise down(told.issuer, error) from error
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else "no status"
            raise _refused(
                f"The sign-in provider did not accept the sign-in ({status}).",
                "Sign in again. If it stays, OLMWEB_OIDC_CLIENT_ID or _SECRET may be wrong.",
            ) from error
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise _broken(told.issuer, "gave an answer that can't be read") from error
        if user is not None:
            request.session["oidc_end_session"] = self.provider.end_session_endpoint
        return user

    @staticmethod
    def get_settings(attr: str, *args: Any) -> Any:
        return getattr(settings, attr, *args)

    def get_token(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The provider's answer to the code, as a mapping."""
        methods = self.provider.token_endpoint_auth_methods_supported
        sent = dict(payload)
        basic = "client_secret_basic" in methods
        if basic:
            del sent["client_secret"]
        response = requests.post(
            self.OIDC_OP_TOKEN_ENDPOINT,
            data=sent,
            auth=(self.OIDC_RP_CLIENT_ID, self.OIDC_RP_CLIENT_SECRET) if basic else None,
            timeout=TIMEOUT,
            allow_redirects=False,
        )
        self.raise_token_response_error(response)
        return dict(response.json())

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """The claims of an ID token that is ours, now (OpenID Connect Core 1.0, 3.1.3.7)."""
        told = self.told
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key_of(token),
                algorithms=ALGORITHMS,
                audience=told.client_id,
                issuer=self.provider.issuer,
                leeway=LEEWAY,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise _refused("The sign-in took too long: its ID token has expired.") from error
        except jwt.InvalidAudienceError as error:
            raise _refused("The ID token of this sign-in is meant for another client.") from error
        except jwt.PyJWTError as error:
            log.warning("oidc token refused", error=type(error).__name__)
            raise _refused("The ID token of this sign-in is not valid.") from error
        others = claims["aud"] if isinstance(claims["aud"], list) else []
        if claims.get("azp", told.client_id) != told.client_id or (
            len(others) > 1 and "azp" not in claims
        ):
            raise _refused("The ID token of this sign-in is meant for another client.")
        if claims.get("nonce") != kwargs.get("nonce"):
            raise _refused("The ID token belongs to another sign-in.")
        return claims

    def _key_of(self, token: str) -> Any:
        """The provider's public key for this token: that of its `kid`, or the only one there is."""
        answer = requests.get(self.OIDC_OP_JWKS_ENDPOINT, timeout=TIMEOUT, allow_redirects=False)
        answer.raise_for_status()
        kid = jwt.get_unverified_header(token).get("kid")
        keys = jwt.PyJWKSet.from_dict(answer.json()).keys
        found = [one for one in keys if one.key_id == kid] if kid else keys
        if len(found) != 1:
            raise _refused("The ID token of this sign-in is signed with a key of nobody.")
        return found[0].key

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User:
        """The account of these claims, with the groups of now."""
        told = self.told
        wanted = (told.username_claim, told.groups_claim)
        if self.OIDC_OP_USER_ENDPOINT and not all(name in payload for name in wanted):
            more = requests.get(
                self.OIDC_OP_USER_ENDPOINT,
                headers={"Authorization": f"Bearer {access_token}"},
                timeout=TIMEOUT,
                allow_redirects=False,
            )
            more.raise_for_status()
            about = dict(more.json())
            if about.get("sub") != payload["sub"]:
                raise _refused("The provider tells about another person than the one signed in.")
            payload = {**about, **payload}
        return account_of(read_claims(payload, told), told)

    def get_user(self, user_id: int) -> User | None:
        """As Django's own: a person who was switched off is signed out."""
        found = ModelBackend().get_user(user_id)
        return found if isinstance(found, User) else None

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return False  # ModelBackend answers


def read_claims(payload: dict[str, Any], told: OidcSettings) -> Claims:
    """The claims that are used. Raises OlmwebError (403) that names the one which is missing."""
    name = payload.get(told.username_claim)
    if not isinstance(name, str) or not name.strip():
        raise _refused(
            f"The provider does not tell your user name: the claim {told.username_claim} is "
            "missing.",
            "An administrator can set OLMWEB_OIDC_USERNAME_CLAIM or OLMWEB_OIDC_SCOPES.",
        )
    name = name.strip()
    if len(name) > NAME_LIMIT or not name.isprintable() or name.startswith("system:"):
        raise _refused("The user name that the provider tells can't be used here.", "")
    groups = payload.get(told.groups_claim)
    if isinstance(groups, str):
        groups = [groups]
    listed = groups if isinstance(groups, list) else []
    email = payload.get("email")
    return Claims(
        subject=str(payload["sub"])[:255],
        username=name,
        groups=tuple(one for one in listed if isinstance(one, str)),
        groups_told=groups is not None,
        email=email[:254] if isinstance(email, str) else "",
    )


def account_of(claims: Claims, told: OidcSettings) -> User:
    """The account of this person, made at the first sign-in; role and groups are set anew.

    It is known by issuer and subject, never by name: nobody takes over another's account. Raises
    OlmwebError (403) for people without a role, and names that another account has.
    """
    names = {told.roles[one] for one in claims.groups if one in told.roles}
    names |= {told.default_role} if told.default_role else set()
    role = next((one for one in reversed(ROLES) if one.name in names), None)
    if role is None:
        missing = "" if claims.groups_told else f" (the claim {told.groups_claim} is missing)"
        raise _refused(
            f"{claims.username} is in no group that may use OLM Web{missing}.",
            "Ask an administrator to add one of your groups to OLMWEB_OIDC_ROLES.",
        )
    shown = {told.cluster_groups[one] for one in claims.groups if one in told.cluster_groups}
    groups = [Group.objects.get_or_create(name=name)[0] for name in {role.group, *shown}]
    try:
        with transaction.atomic():
            user = _row_of(claims, told.issuer)
            user.username, user.email, user.is_staff = (
                claims.username,
                claims.email,
                role.sees_admin,
            )
            user.save(update_fields=["username", "email", "is_staff"])
            user.groups.set(groups)
    except IntegrityError as error:
        raise _refused(
            f"Another account is called {claims.username} here.",
            "Ask an administrator to rename or delete it.",
        ) from error
    return user


def _row_of(claims: Claims, issuer: str) -> User:
    known = (
        OidcIdentity.objects.select_related("user")
        .filter(issuer=issuer, subject=claims.subject)
        .first()
    )
    if known is None:
        user = User.objects.create_user(claims.username)
        OidcIdentity.objects.create(user=user, issuer=issuer, subject=claims.subject)
        return user
    if not known.user.is_active:
        raise _refused("This account is switched off.", "Ask an administrator of OLM Web.")
    return known.user
