"""The access matrix: every route, what each HTTP method of it needs, and who has that.

A route or a registered admin model without a row fails the tests, and so does a row without one.
Methods that a row does not name are refused for everybody (405).
"""

# Who may, by the need of a route. "public" is a visitor without an account with
# OLMWEB_PUBLIC_READ=true, "no role" an account in none of the groups of the roles, "staff" one that
# has the staff flag alone. Disabled accounts are treated as visitors without an account.
ROLES = ("anonymous", "public", "disabled", "no role", "staff", "viewer", "operator", "admin",
         "superuser")  # fmt: skip
ACCOUNTS = frozenset({"no role", "staff", "viewer", "operator", "admin", "superuser"})
NEEDS = {
    "open": frozenset(ROLES),
    "read": ACCOUNTS | {"public"},
    "account": ACCOUNTS,
    "request": frozenset({"viewer", "operator", "admin", "superuser"}),
    "act": frozenset({"operator", "admin", "superuser"}),
    "sync": frozenset({"admin", "superuser"}),  # and add, change, delete catalogs
}

_READ = {"GET": "read"}
_ACCOUNT = {"GET": "account"}
_OPERATOR = "/operators/{cluster}/{kind}/{namespace}/{name}"
_SOFTWARE = "/software/{cluster}/{catalog}/{package}"
_CATALOG = "/catalogs/{cluster}/{catalog}"
PAGES: dict[str, dict[str, str]] = {
    "/": _READ,
    "/software/": _READ,
    "/search/": _READ,
    "/report/": _READ,
    _SOFTWARE: _READ,
    f"{_SOFTWARE}/graph.mmd": _READ,
    f"{_SOFTWARE}/graph.svg": _READ,
    f"{_SOFTWARE}/{{bundle}}": _READ,
    f"{_SOFTWARE}/export": _READ,
    f"{_SOFTWARE}/export/{{form}}": _READ,
    f"{_SOFTWARE}/install": {"GET": "act", "POST": "act"},
    f"{_SOFTWARE}/request": {"GET": "request", "POST": "request"},
    "/inspections/{cluster}/{catalog}/{package}/{bundle}": {"GET": "read", "POST": "act"},
    "/contents/{cluster}/{catalog}/{package}/{bundle}": _READ,
    "/icons/{sha256}": _READ,
    "/catalogs/": _READ,
    "/catalogs/new": {"GET": "sync", "POST": "sync"},
    "/catalogs/export.csv": _READ,
    "/catalogs/columns": {"POST": "account"},
    "/catalogs/compare": _READ,
    "/catalogs/changes.atom": _READ,
    _CATALOG: _READ,
    f"{_CATALOG}/changes.atom": _READ,
    f"{_CATALOG}/problems.md": _READ,
    f"{_CATALOG}/edit": {"GET": "sync", "POST": "sync"},
    f"{_CATALOG}/delete": {"GET": "sync", "POST": "sync"},
    f"{_CATALOG}/progress": _READ,
    f"{_CATALOG}/sync": {"POST": "sync"},
    f"{_CATALOG}/inspection": {"POST": "sync"},
    f"{_CATALOG}/cancel": {"POST": "sync"},
    "/operators/": _READ,
    "/operators/export.csv": _READ,
    "/operators/columns": {"POST": "account"},
    "/operators/bulk-change": {"GET": "act", "POST": "act"},
    _OPERATOR: _READ,
    f"{_OPERATOR}/remove": {"GET": "act", "POST": "act"},
    f"{_OPERATOR}/upgrade": {"GET": "act", "POST": "act"},
    f"{_OPERATOR}/retry": {"GET": "act", "POST": "act"},
    "/installplans/{cluster}/{namespace}/{name}/approve": {"GET": "act", "POST": "act"},
    "/cluster-operators/": _READ,
    "/cluster-operators/export.csv": _READ,
    "/cluster-operators/columns": {"POST": "account"},
    "/cluster-operators/{cluster}/{name}": _READ,
    "/clusters/{cluster}": _READ,
    "/objects/{cluster}/{kind}/{namespace}/{name}": {"GET": "read", "POST": "request"},
    "/readiness/": _READ,
    "/readiness/olm-v1/": _READ,
    "/crds/": _READ,
    "/crds/export.csv": _READ,
    "/crds/columns": {"POST": "account"},
    "/audit/": _READ,
    "/reports/copied-csvs/": {"GET": "read", "POST": "account"},
    "/activity/": _READ,
    "/activity/export.csv": _ACCOUNT,
    "/activity/columns": {"POST": "account"},
    "/activity/requests/": _ACCOUNT,
    "/activity/requests/export.csv": _ACCOUNT,
    "/activity/requests/columns": {"POST": "account"},
    "/activity/requests/{id}": {"GET": "account", "POST": "account"},
    "/activity/actions/{id}": _ACCOUNT,
    "/activity/bulk-installs/{id}": _ACCOUNT,
    "/activity/bulk-installs/{id}/stop": {"POST": "act"},
    "/bulk-install/": {"GET": "act", "POST": "act"},
    "/notifications/": {"GET": "account", "POST": "account"},
    "/notifications/bell": _ACCOUNT,
    "/events/": _READ,
    "/api/v1/docs": _READ,
    "/login/": {"GET": "open", "POST": "open"},
    "/login/oidc/": {"GET": "open"},
    "/login/oidc/callback": {"GET": "open"},
    "/logout/": {"POST": "account"},
    "/help/": _READ,
    "/account/": {"GET": "account", "POST": "account"},
    "/account/tokens/": {"GET": "account", "POST": "account"},
    "/account/tokens/{id}/revoke": {"GET": "account", "POST": "account"},
    "/livez": {"GET": "open"},
    "/readyz": {"GET": "open"},
    "/metrics": _READ,
    "/api/{rest}": {},  # not a route of the API: 404 for all who may read
}

# Below /api/v1. A method other than GET needs a token with the scope act, too.
REST: dict[str, dict[str, str]] = {
    "/": _READ,
    "/version": _READ,
    "/openapi.json": _READ,
    "/status": _READ,
    "/clusters": _READ,
    "/clusters/{name}": _READ,
    "/catalogs": _READ,
    _CATALOG: {"GET": "read", "DELETE": "sync"},
    f"{_CATALOG}/sync": {"POST": "sync"},
    f"{_CATALOG}/problems": _READ,
    f"{_CATALOG}/changes": _READ,
    f"{_CATALOG}/fbc": _READ,
    "/compare": _READ,
    "/packages": _READ,
    "/packages/{cluster}/{catalog}/{package}": _READ,
    "/packages/{cluster}/{catalog}/{package}/resolve": _READ,
    "/packages/{cluster}/{catalog}/{package}/export": _READ,
    "/packages/{cluster}/{catalog}/{package}/fbc": _READ,
    "/bundles": _READ,
    "/bundles/{cluster}/{catalog}/{package}/{bundle}": _READ,
    "/bundles/{cluster}/{catalog}/{package}/{bundle}/contents": _READ,
    "/bundles/{cluster}/{catalog}/{package}/{bundle}/difference": _READ,
    "/bundles/{cluster}/{catalog}/{package}/{bundle}/fbc": _READ,
    "/inspections/{cluster}/{catalog}/{package}/{bundle}": {"GET": "read", "POST": "act"},
    "/operators": _READ,
    _OPERATOR: _READ,
    "/transitions": _READ,
    "/clusteroperators": _READ,
    "/clusteroperators/{cluster}/{name}": _READ,
    "/crds": _READ,
    "/readiness": _READ,
    "/takeovers": _READ,
    "/audit": _READ,
    "/actions": {"GET": "account", "POST": "act"},
    "/actions/{id}": _ACCOUNT,
    "/requests": {"GET": "account", "POST": "request"},
    "/requests/{id}": _ACCOUNT,
    "/requests/{id}/approve": {"POST": "act"},
    "/requests/{id}/decline": {"POST": "act"},
    "/bulk-installs": {"POST": "act"},
    "/bulk-installs/{id}": _ACCOUNT,
    "/bulk-installs/{id}/stop": {"POST": "act"},
}

# Admin pages by model: (what an admin with the staff flag may do, what a superuser may do). All
# others may do nothing there, whatever their flags.
_SHOWN = (("view",), ("view",))
_ALL = ("view", "add", "change", "delete")
ADMIN: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # Deleting a row unlocks its account and address.
    "axes.AccessAttempt": ((), ("view", "delete")),
    "auth.Group": ((), _ALL),
    "auth.User": ((), _ALL),
    "catalogs.Catalog": (("view", "add", "sync_now"), ("view", "add", "sync_now")),
    "catalogs.CatalogInspection": (("view", "add", "change"), ("view", "add", "change")),
    "installs.AllowRule": (_ALL, _ALL),
    "installs.Notification": (("view", "send_again"), ("view", "send_again")),
    "olmweb.ApiToken": (("view",), ("view", "delete")),
    "olmweb.Cluster": (("view", "sync_now"), ("view", "sync_now")),
    "catalogs.BundleInspection": _SHOWN,
    "installs.Action": _SHOWN,
    "installs.ActionBatch": _SHOWN,
    "installs.CopyReport": _SHOWN,
    "installs.InstallRequest": _SHOWN,
    "installs.Operator": _SHOWN,
    "installs.UnknownMessage": _SHOWN,
    "olmweb.AuditEvent": _SHOWN,
    "olmweb.OidcIdentity": _SHOWN,
    # Deleting a row returns an account to the defaults, or goes with the account.
    "olmweb.Preferences": (("view",), ("view", "delete")),
    "olmweb.ResourceWatch": _SHOWN,
    "olmweb.SyncRun": _SHOWN,
}
