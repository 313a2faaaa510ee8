"""The settings OLMWEB_OIDC_*, read and checked. Pure: knows neither Django nor the provider."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from olmweb.runtime.env import Env

# Lowest first; olmweb.accounts.roles.ROLES has the same.
ROLE_NAMES = ("viewer", "operator", "admin")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """`roles`: the provider's group -> role; `cluster_groups`: its group -> the cluster's name.

    `default_role` is that of people in no group of `roles`; empty: they can't sign in.
    """

    issuer: str
    client_id: str
    client_secret: str
    scopes: str
    username_claim: str
    groups_claim: str
    roles: dict[str, str]
    cluster_groups: dict[str, str]
    default_role: str
    username_prefix: str = ""


def read_oidc(env: Env) -> OidcSettings | None:
    """The settings, or None when OpenID Connect is off. Reports every problem to `env`."""
    issuer = env.text("OLMWEB_OIDC_ISSUER").rstrip("/")
    default = env.choice("OLMWEB_OIDC_DEFAULT_ROLE", "none", ("none", *ROLE_NAMES[:2]))
    config = OidcSettings(
        issuer=issuer,
        client_id=env.text("OLMWEB_OIDC_CLIENT_ID"),
        client_secret=env.text("OLMWEB_OIDC_CLIENT_SECRET"),
        scopes=env.text("OLMWEB_OIDC_SCOPES", "openid profile email"),
        username_claim=env.text("OLMWEB_OIDC_USERNAME_CLAIM", "preferred_username"),
        groups_claim=env.text("OLMWEB_OIDC_GROUPS_CLAIM", "groups"),
        roles=_pairs(env, "OLMWEB_OIDC_ROLES"),
        cluster_groups=_pairs(env, "OLMWEB_OIDC_CLUSTER_GROUPS"),
        default_role="" if default == "none" else default,
        username_prefix=env.text("OLMWEB_OIDC_USERNAME_PREFIX"),
    )
    if not issuer:
        _refuse_lonely(env, config)
        return None
    for sentence in _problems(config):
        env.problem(sentence)
    return config


def is_safe_address(address: str) -> bool:
    """Whether this is https, or http on this machine, and names a host."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    )


def _pairs(env: Env, name: str) -> dict[str, str]:
    """`group=value,...`; a group alone stands for itself. Splits at the last `=`: LDAP names have
    some."""
    pairs = {}
    for entry in env.listing(name):
        group, equals, value = entry.rpartition("=")
        pairs[group.strip() if equals else value.strip()] = value.strip()
    return pairs


def _refuse_lonely(env: Env, config: OidcSettings) -> None:
    given = config.client_id or config.client_secret or config.roles or config.cluster_groups
    if given or config.default_role:
        env.problem(
            "OLMWEB_OIDC_ISSUER is not set but other OLMWEB_OIDC_ settings are; set it to the "
            "address of the provider, or remove them."
        )


def _problems(config: OidcSettings) -> list[str]:
    problems = []
    if not is_safe_address(config.issuer) or "?" in config.issuer or "#" in config.issuer:
        problems.append(
            f'OLMWEB_OIDC_ISSUER is "{config.issuer}"; write the https:// address of the provider, '
            "without /.well-known/openid-configuration."
        )
    problems += [
        f"{name} is not set; OLMWEB_OIDC_ISSUER needs it: the provider gave it when OLM Web was "
        "registered there."
        for name, value in (
            ("OLMWEB_OIDC_CLIENT_ID", config.client_id),
            ("OLMWEB_OIDC_CLIENT_SECRET", config.client_secret),
        )
        if not value
    ]
    if "openid" not in config.scopes.split():
        problems.append('OLMWEB_OIDC_SCOPES must name "openid", with other scopes after spaces.')
    for name, value in (("USERNAME", config.username_claim), ("GROUPS", config.groups_claim)):
        if not value or not value.isprintable():
            problems.append(f"OLMWEB_OIDC_{name}_CLAIM is empty; name a claim of the ID token.")
    problems += [
        f'OLMWEB_OIDC_ROLES gives the group "{group}" the role "{role}"; the roles are '
        f"{', '.join(ROLE_NAMES)}."
        for group, role in config.roles.items()
        if role not in ROLE_NAMES or not group
    ]
    problems += [
        f'OLMWEB_OIDC_CLUSTER_GROUPS names "{name}", which a person can\'t be given: it belongs to '
        "the cluster or is empty."
        for group, name in config.cluster_groups.items()
        if not group or not re.fullmatch(r"[!-~]{1,150}", name) or name.startswith("system:")
    ]
    prefix = config.username_prefix
    if not re.fullmatch(r"[!-~]{0,50}", prefix) or prefix.startswith("system:"):
        problems.append(
            f'OLMWEB_OIDC_USERNAME_PREFIX is "{prefix}"; write up to 50 ASCII characters without '
            "blanks that do not begin with system:."
        )
    if not config.roles and not config.default_role:
        problems.append(
            "OLMWEB_OIDC_ROLES is not set, so nobody could sign in; write group=role,... or give "
            "everybody a role with OLMWEB_OIDC_DEFAULT_ROLE."
        )
    return problems
