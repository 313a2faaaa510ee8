"""Sign-in with OpenID Connect: checks the provider's answers and finds the account and its role.

The code flow (state, nonce, PKCE, exchange) is mozilla-django-oidc's. Here are the parts that it
leaves out: discovery at sign-in, the checks of the ID token, the account, its role and groups.
Failures are OlmwebErrors.
"""

import threading
import time
from dataclasses import dataclass
from typing import Any

import jwt
import msgspec
import requests
import structlog
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from mozilla_django_oidc.auth import OIDCAuthenticationBackend

from olmweb.accounts import audit
from olmweb.accounts.oidc_settings import OidcSettings, is_safe_address
from olmweb.accounts.roles import ROLES, AccountBackend
from olmweb.errors import OlmwebError
from olmweb.models import OidcIdentity

log = structlog.get_logger(__name__)

TIMEOUT = 5  # seconds for an answer of the provider: a person waits
LEEWAY = 30  # seconds that the two clocks may differ
DOCUMENT_LIMIT = 1_000_000  # bytes
# Signed with the provider's private key; never "none", never HMAC with the client secret.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
NAME_LIMIT = 150
DISCOVERY_AGE = 300  # seconds
FAILURE_AGE = 10  # seconds without a request after a failed one


class Provider(msgspec.Struct, frozen=True):
    """The used part of a discovery document (OpenID Connect Discovery 1.0, section 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


# Issuer -> until when its discovery document, or the failure to read it, is valid.
_discovered: dict[str, tuple[float, Provider | OlmwebError]] = {}
_reading = threading.Lock()


@dataclass(frozen=True, slots=True)
class Claims:
    """The used claims of an ID token. `groups` are the provider's own."""

    subject: str
    username: str
    groups: tuple[str, ...]
    has_groups_claim: bool
    email: str = ""


def configured() -> OidcSettings:
    """The settings of OpenID Connect. Raises OlmwebError (404) when it is off."""
    config: OidcSettings | None = settings.OIDC
    if config is None:
        raise OlmwebError(
            "Sign-in by OpenID Connect is not set up here.",
            code="oidc-off",
            status=404,
            hint="Sign in with a user name and password.",
        )
    return config


def discover(issuer: str) -> Provider:
    """The provider's discovery document, read every DISCOVERY_AGE. Raises OlmwebError (502), for
    FAILURE_AGE without another request.

    Stored in the process: visitors without an account must not make one request each. Nor may they
    hold every thread while the provider is silent: one reads, and the others go on with the result
    before it.
    """
    valid_until, result = _discovered.get(issuer, (0.0, None))
    is_old = result is None or time.monotonic() >= valid_until
    if is_old and _reading.acquire(timeout=TIMEOUT if result is None else 0):
        try:
            valid_until, result = _discovered.get(issuer, (0.0, None))
            if result is None or time.monotonic() >= valid_until:
                result, age = _discovery_of(issuer)
                _discovered[issuer] = time.monotonic() + age, result
        finally:
            _reading.release()
    if result is None:
        raise down(issuer, TimeoutError())
    if isinstance(result, OlmwebError):
        raise result.with_traceback(None)  # not that of all who were refused before
    return result


def _discovery_of(issuer: str) -> tuple[Provider | OlmwebError, float]:
    """The document or the error of reading it, and for how many seconds it counts."""
    try:
        return _read_discovery(issuer), DISCOVERY_AGE
    except OlmwebError as error:
        return error, FAILURE_AGE


def _read_discovery(issuer: str) -> Provider:
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
        provider = msgspec.json.decode(body, type=Provider)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(issuer, "has a discovery document that can't be read") from error
    if provider.issuer.rstrip("/") != issuer:
        raise _broken(issuer, "calls itself by another address in its discovery document")
    used = (provider.authorization_endpoint, provider.token_endpoint, provider.jwks_uri)
    optional = tuple(filter(None, (provider.userinfo_endpoint, provider.end_session_endpoint)))
    if not all(map(is_safe_address, used + optional)):
        raise _broken(issuer, "names an address in its discovery document that is not https")
    return provider


def down(issuer: str, error: Exception) -> OlmwebError:
    """The error for a provider that does not answer."""
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
    """Django's authentication backend; AccountBackend, set up beside it, has the permissions."""

    def __init__(self) -> None:
        # Instantiated for every request of a signed-in person, so nothing is read here.
        self.UserModel = User

    def authenticate(
        self, request: HttpRequest, *, nonce: str, code_verifier: str | None
    ) -> User | None:
        """The user of this callback, in up to four requests to the provider. Raises OlmwebError."""
        config = configured()
        self.config, self.provider = config, discover(config.issuer)
        self.OIDC_RP_CLIENT_ID = config.client_id
        self.OIDC_RP_CLIENT_SECRET = config.client_secret
        self.OIDC_OP_TOKEN_ENDPOINT = self.provider.token_endpoint
        self.OIDC_OP_JWKS_ENDPOINT = self.provider.jwks_uri
        self.OIDC_OP_USER_ENDPOINT = self.provider.userinfo_endpoint
        try:
            user: User | None = super().authenticate(
                request, nonce=nonce, code_verifier=code_verifier
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            raise down(config.issuer, error) from error
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else "no status"
            raise _refused(
                f"The sign-in provider did not accept the sign-in ({status}).",
                "Sign in again. If it stays, OLMWEB_OIDC_CLIENT_ID or _SECRET may be wrong.",
            ) from error
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise _broken(config.issuer, "gave an answer that can't be read") from error
        if user is not None:
            # For the view, which signs in: a failure must not touch a running session.
            request.oidc_end_session = self.provider.end_session_endpoint  # type: ignore[attr-defined]
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
        """The claims of a valid ID token (OpenID Connect Core 1.0, 3.1.3.7). Raises OlmwebError."""
        config = self.config
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key_of(token),
                algorithms=ALGORITHMS,
                audience=config.client_id,
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
        if claims.get("azp", config.client_id) != config.client_id or (
            len(others) > 1 and "azp" not in claims
        ):
            raise _refused("The ID token of this sign-in is meant for another client.")
        if claims.get("nonce") != kwargs.get("nonce"):
            raise _refused("The ID token belongs to another sign-in.")
        return claims

    def _key_of(self, token: str) -> Any:
        """The provider's public key for this token: that of its `kid`, or the only one."""
        answer = requests.get(self.OIDC_OP_JWKS_ENDPOINT, timeout=TIMEOUT, allow_redirects=False)
        answer.raise_for_status()
        kid = jwt.get_unverified_header(token).get("kid")
        keys = jwt.PyJWKSet.from_dict(answer.json()).keys
        matching = [key for key in keys if key.key_id == kid] if kid else keys
        if len(matching) != 1:
            raise _refused("The ID token of this sign-in is signed with a key of nobody.")
        return matching[0].key

    def get_or_create_user(self, access_token: str, id_token: str, payload: dict[str, Any]) -> User:
        """The account of these claims, with its current groups."""
        config = self.config
        wanted = (config.username_claim, config.groups_claim)
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
        return account_of(read_claims(payload, config), config)

    def get_user(self, user_id: int) -> User | None:
        """As in AccountBackend: a deactivated user is signed out."""
        return AccountBackend().get_user(user_id)

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return False  # AccountBackend answers


def read_claims(payload: dict[str, Any], config: OidcSettings) -> Claims:
    """The used claims. Raises OlmwebError (403) that names a missing one."""
    name = payload.get(config.username_claim)
    if not isinstance(name, str) or not name.strip():
        raise _refused(
            f"The provider does not tell your user name: the claim {config.username_claim} is "
            "missing.",
            "An administrator can set OLMWEB_OIDC_USERNAME_CLAIM or OLMWEB_OIDC_SCOPES.",
        )
    name = name.strip()
    if name.startswith("system:"):
        raise _refused(
            "User names that begin with system: are the cluster's and can't be used here.", ""
        )
    name = config.username_prefix + name
    if len(name) > NAME_LIMIT or not name.isprintable() or name.startswith("system:"):
        raise _refused("The user name that the provider tells can't be used here.", "")
    groups = payload.get(config.groups_claim)
    if isinstance(groups, str):
        groups = [groups]
    listed = groups if isinstance(groups, list) else []
    email = payload.get("email")
    return Claims(
        subject=str(payload["sub"])[:255],
        username=name,
        groups=tuple(group for group in listed if isinstance(group, str)),
        has_groups_claim=groups is not None,
        email=email[:254] if isinstance(email, str) else "",
    )


def account_of(claims: Claims, config: OidcSettings) -> User:
    """The account of these claims, created at the first sign-in; sets its role and groups.

    It is identified by issuer and subject, never by name: a name can't take over another account.
    Role and groups of an existing account are set even if the sign-in is refused, so that nothing
    goes on with rights that the provider took away. Raises OlmwebError (403) for a person without a
    role, or with another account's name.
    """
    names = {config.roles[group] for group in claims.groups if group in config.roles}
    names |= {config.default_role} if config.default_role else set()
    role = next((role for role in reversed(ROLES) if role.name in names), None)
    identity = _identity_of(claims, config.issuer)
    if role is None:
        if identity is not None:
            _set_groups(identity.user, set(), sees_admin=False)
        missing = (
            "" if claims.has_groups_claim else f" (the claim {config.groups_claim} is missing)"
        )
        raise _refused(
            f"{claims.username} is in no group that may use OLM Web{missing}.",
            "Ask an administrator to add one of your groups to OLMWEB_OIDC_ROLES.",
        )
    extra = {
        config.cluster_groups[group] for group in claims.groups if group in config.cluster_groups
    }
    groups = {role.group, *extra}
    if identity is not None:
        _set_groups(identity.user, groups, sees_admin=role.sees_admin)
    if identity is not None and not identity.user.is_active:
        raise _refused("This account is switched off.", "Ask an administrator of OLM Web.")
    try:
        with transaction.atomic(), audit.source(audit.OIDC):
            if identity is None:
                user = User.objects.create_user(claims.username)
                OidcIdentity.objects.create(user=user, issuer=config.issuer, subject=claims.subject)
                _set_groups(user, groups, sees_admin=role.sees_admin)
            else:
                user = identity.user
            user.username, user.email = claims.username, claims.email
            user.save(update_fields=["username", "email"])
    except IntegrityError as error:
        raise _refused(
            f"Another account is called {claims.username} here.",
            "Ask an administrator to rename or delete it.",
        ) from error
    return user


def _identity_of(claims: Claims, issuer: str) -> OidcIdentity | None:
    identities = OidcIdentity.objects.select_related("user")
    return identities.filter(issuer=issuer, subject=claims.subject).first()


def _set_groups(user: User, names: set[str], *, sees_admin: bool) -> None:
    with transaction.atomic(), audit.source(audit.OIDC):
        user.is_staff = sees_admin
        user.save(update_fields=["is_staff"])
        user.groups.set([Group.objects.get_or_create(name=name)[0] for name in names])
