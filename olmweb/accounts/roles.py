"""Roles and permissions: the three roles, who may read, impersonation on clusters.

A role is a Django group with permissions; ROLES is the one table of them. Makes no request to a
cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, wraps
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, Permission, User
from django.contrib.auth.views import redirect_to_login
from django.db.models import Aggregate, QuerySet, TextField, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Cast, Concat
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve, reverse
from django.utils import timezone

from olmweb.clusters import as_olmweb_error
from olmweb.errors import OlmwebError
from olmweb.kube.client import Impersonation
from olmweb.kube.errors import KubeError

AnyUser = AbstractBaseUser | AnonymousUser
View = Callable[..., HttpResponseBase]

# Paths without a session: sign-in, assets; API and metrics check their own tokens.
OPEN_PREFIXES = ("/metrics", "/login/", "/static/", "/api/")
SERVICE_ACCOUNT = "service-account"
SEPARATOR = "\x1f"  # of texts in one column

ACT = "installs.add_action"  # install, upgrade, approve, remove
ASK = "installs.add_installrequest"  # request a package with a reason
DECIDE = "installs.decide_installrequest"  # approve or decline requests of others
DECIDE_OWN = "installs.decide_own_installrequest"  # and one's own requests
INSPECT = "catalogs.add_bundleinspection"  # have a worker pull the image of a bundle
INSPECT_ALL = "catalogs.change_cataloginspection"  # have workers inspect all images of a catalog
SYNC = "catalogs.sync_catalog"  # start and cancel syncs
ADD_CATALOG, CHANGE_CATALOG, DELETE_CATALOG = (  # of catalogs that people add
    f"catalogs.{verb}_catalog" for verb in ("add", "change", "delete")
)
# Catalogs from files of the server; no role has it, as the server's secrets are files, too.
READ_FILES = "catalogs.read_server_files"
READ_YAML = "installs.add_objectyaml"  # have a worker read an object as oneself
_CATALOGS = (ADD_CATALOG, CHANGE_CATALOG, DELETE_CATALOG)
_REFUSALS = {  # permission -> message and hint
    SYNC: (
        "Your role may not start or cancel a sync.",
        "Ask an administrator of OLM Web, or wait: catalogs are synced by themselves.",
    ),
    INSPECT_ALL: (
        "Your role may not start or stop the inspection of a catalog.",
        "Ask an administrator of OLM Web; single bundles are inspected on their pages.",
    ),
} | dict.fromkeys(
    _CATALOGS,
    (
        "Your role may not add, change or delete catalogs.",
        "Ask an administrator of OLM Web for the role admin.",
    ),
)
_ALLOW_LIST = tuple(f"installs.{verb}_allowrule" for verb in ("view", "add", "change", "delete"))
_RECEIVERS = tuple(
    f"installs.{verb}_webhookreceiver" for verb in ("view", "add", "change", "delete")
)
_OURS = ("olmweb", "catalogs", "installs")  # the apps whose admin pages an admin may read


@dataclass(frozen=True, slots=True)
class Role:
    """`group` is the Django group, which is also impersonated with OLMWEB_WRITE_AS=user; `rights`
    completes the sentence `Role viewer ...`.

    `permissions` are `app.codename`; `sees_admin` adds all `view_` permissions of our apps.
    """

    name: str
    group: str
    rights: str
    permissions: tuple[str, ...]
    sees_admin: bool = False


# Each role may do what the ones above it may. Reading needs no permission but an account.
ROLES = (
    Role("viewer", "olmweb-viewers", "reads, and may request installations", (ASK, READ_YAML)),
    Role(
        "operator",
        "olmweb-operators",
        "may install, upgrade and remove operators",
        (ASK, READ_YAML, ACT, DECIDE, INSPECT),
    ),
    Role(
        "admin",
        "olmweb-admins",
        "may also change catalogs and settings of OLM Web",
        (
            *(ASK, READ_YAML, ACT, DECIDE, INSPECT, DECIDE_OWN, INSPECT_ALL, SYNC),
            *_CATALOGS,
            *_ALLOW_LIST,
            *_RECEIVERS,
        ),
        sees_admin=True,
    ),
)
NOT_AN_OPERATOR = "Your role may not change clusters"


class Joined(Aggregate):
    """The texts of all rows, joined by SEPARATOR; NULL for no row."""

    function = "STRING_AGG"

    def __init__(self, text: Any) -> None:
        super().__init__(text, Value(SEPARATOR), output_field=TextField())

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # By this name in every version of SQLite.
        return super().as_sql(compiler, connection, function="GROUP_CONCAT", **context)


def _joined(rows: QuerySet[Any], user: str, text: Any) -> RawSQL:
    """The texts of the rows whose relation `user` is the user of the outer query. As SQL: building
    a subquery again for every page would take longer than reading it."""
    rows = rows.filter(**{user: RawSQL('"auth_user"."id"', ())}).order_by().values(user)
    joined = rows.annotate(joined=Joined(text)).values("joined")
    sql, params = joined.query.sql_with_params()
    return RawSQL(sql, params, output_field=TextField())  # noqa: S611 - the ORM wrote it


_PERMISSION = Concat("content_type__app_label", Value("."), "codename", output_field=TextField())


@cache
def _accounts() -> QuerySet[Any]:
    """All accounts with their preferences, permissions and groups. Every page reads one of them:
    building this takes longer than reading."""
    permissions = Permission.objects.all()
    return User.objects.select_related("preferences").annotate(
        joined_groups=_joined(Group.objects.all(), "user", Cast("name", TextField())),
        joined_of_groups=_joined(permissions, "group__user", _PERMISSION),
        joined_own=_joined(permissions, "user", _PERMISSION),
    )


class AccountBackend(ModelBackend):
    """Django's backend, which reads the account of a session with its preferences, permissions and
    groups in one query, and refuses the password of an account of OpenID Connect."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        """None also for an account of OpenID Connect that was given a password: its groups are
        those of its last sign-in at the provider, whose time is that of the last sign-in at all."""
        user = super().authenticate(request, username=username, password=password, **kwargs)
        return None if hasattr(user, "oidc_identity") else cast(User | None, user)

    def get_user(self, user_id: int) -> User | None:
        user: Any = _accounts().filter(pk=user_id).first()
        if user is None or not self.user_can_authenticate(user):
            return None
        texts = [user.joined_groups, user.joined_of_groups, user.joined_own]
        groups, of_groups, own = (
            set(filter(None, (text or "").split(SEPARATOR))) for text in texts
        )
        user._group_names = sorted(groups)
        if not user.is_superuser:  # who has all permissions
            user._perm_cache = of_groups | own
        return cast(User, user)

    def get_all_permissions(self, user_obj: User | AnonymousUser, obj: Any = None) -> set[str]:
        """As Django's, of an account without a session those of the user and of their groups in one
        query instead of two, which reads the names of the groups, too."""
        if not isinstance(user_obj, User) or not user_obj.is_active or user_obj.is_superuser or obj:
            return super().get_all_permissions(user_obj, obj)
        permissions: set[str] | None = getattr(user_obj, "_perm_cache", None)
        if permissions is None:
            path = "permissions__content_type__app_label", "permissions__codename"
            own = user_obj.user_permissions.order_by()
            rows = list(
                user_obj.groups.order_by()
                .values_list("name", *path)
                .union(own.values_list(Value(""), "content_type__app_label", "codename"), all=True)
            )
            # A group without permissions has one row, without a codename.
            permissions = {f"{app}.{codename}" for _group, app, codename in rows if codename}
            user_obj._perm_cache = permissions  # type: ignore[attr-defined]
            user_obj._group_names = sorted({group for group, *_ in rows if group})  # type: ignore[attr-defined]
        return permissions


class ReadAccessMiddleware:
    """Sends anonymous visitors to the sign-in page unless reading is public."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if (
            request.user.is_authenticated
            or settings.PUBLIC_READ
            or request.path.startswith(OPEN_PREFIXES)
        ):
            return self.get_response(request)
        return redirect_to_login(request.get_full_path())


def sign_in_required(
    *,
    check: Callable[[AnyUser], object] | None = None,
    methods: tuple[str, ...] = (),
    return_to: str = "",
    refused: View | None = None,
) -> Callable[[View], View]:
    """Sends visitors without a session to the sign-in page, which leads back to the view.

    `check` raises OlmwebError for a person who may not use the view; `refused`, which is given that
    error, answers them in place of the error page. `methods` limits all this to these HTTP methods.
    `return_to` names the route, with the view's own arguments, to lead back to where the view
    answers POST alone.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
            if methods and request.method not in methods:
                return view(request, **kwargs)
            if not request.user.is_authenticated:
                address = reverse(return_to, kwargs=kwargs) if return_to else None
                return redirect_to_login(address or request.get_full_path())
            try:
                if check is not None:
                    check(request.user)
            except OlmwebError as error:
                if refused is None:
                    raise
                return refused(request, error, **kwargs)
            return view(request, **kwargs)

        wrapped.required = check  # type: ignore[attr-defined]
        return wrapped

    return decorate


def changes_clusters(path: str) -> bool:
    """Whether the view at this path is for those who may change clusters."""
    try:
        return getattr(resolve(path).func, "required", None) is person
    except Resolver404:
        return False


def create_roles(**_: Any) -> None:
    """Creates the groups of ROLES and adds missing permissions; removes none. Idempotent.

    A receiver of post_migrate, after Django created the permissions.
    """
    permissions = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.select_related("content_type").filter(
            content_type__app_label__in=_OURS
        )
    }
    views = [name for name in permissions if name.partition(".")[2].startswith("view_")]
    for role in ROLES:
        group, _created = Group.objects.get_or_create(name=role.group)
        names = {*role.permissions, *(views if role.sees_admin else ())}
        # Rows of the table itself: what a release gives to a role is no event of the audit log.
        table = Group.permissions.through
        table.objects.bulk_create(
            (
                table(group=group, permission=permissions[name])
                for name in names
                if name in permissions
            ),
            ignore_conflicts=True,
        )


def role_of(user: AnyUser) -> Role | None:
    """The highest role whose permissions the user has, which a superuser and an account with own
    permissions may have without its group. No query for the user of a session."""
    if not isinstance(user, User):
        return None
    return next((role for role in reversed(ROLES) if user.has_perms(role.permissions)), None)


def account_name(user: AnyUser | None) -> str:
    """The name of the account in a sentence: `account operator (role viewer)` if it is the name of
    a role, too. Empty without one. At most two queries, and none for other names."""
    name = user.get_username() if user else ""
    if name not in {role.name for role in ROLES}:
        return name
    role = role_of(user) if user else None
    return f"account {name} (role {role.name})" if role else f"account {name}"


def role_context(request: HttpRequest) -> dict[str, Any]:
    """Context processor: `user_role` is the Role of the user, or None."""
    return {"user_role": role_of(request.user) if hasattr(request, "user") else None}


def may_act(user: AnyUser) -> tuple[bool, str]:
    """Whether this user may change clusters, and if not, why.

    With OLMWEB_WRITE_AS=user the cluster's RBAC decides, too.
    """
    refusal = f"{NOT_AN_OPERATOR}; ask an administrator of OLM Web for the role operator."
    sign_in = "Sign in with the role operator to change anything on a cluster."
    return _may_as_oneself(user, ACT, sign_in, refusal)


def may_issue_act_token(user: AnyUser) -> tuple[bool, str]:
    """Whether a token of this user may have the scope act, and if not, why.

    Every role may change something, if only its own requests: what each is checked at its routes.
    """
    refusal = "Your account has no role; ask an administrator of OLM Web for one."
    return _may_as_oneself(user, ASK, "Sign in to create API tokens.", refusal)


def may_read_yaml(user: AnyUser) -> tuple[bool, str]:
    """Whether this user may have an object read, and if not, why.

    It is read as the user, so the cluster's RBAC decides, too. With OLMWEB_WRITE_AS=service-account
    the account of OLM Web reads it, which is for those who may act.
    """
    if settings.WRITE_AS == SERVICE_ACCOUNT:
        return may_act(user)
    refusal = "Your role may not fetch YAML; ask an administrator of OLM Web for the role viewer."
    return _may_as_oneself(user, READ_YAML, "Sign in to fetch the YAML of an object.", refusal)


def _may_as_oneself(user: AnyUser, permission: str, sign_in: str, refusal: str) -> tuple[bool, str]:
    """Whether this user has the permission and a name that can be impersonated, else why not."""
    if not user.is_authenticated or not isinstance(user, User):
        return False, sign_in
    if not user.is_active:
        return False, "This account is switched off."
    if not user.has_perm(permission):
        return False, refusal
    if settings.WRITE_AS != SERVICE_ACCOUNT and user.get_username().startswith("system:"):
        return False, "Names that start with system: belong to the cluster and can't act here."
    return True, ""


def person_of(request: HttpRequest) -> User:
    """The account of a request that passed `sign_in_required`."""
    return cast(User, request.user)


def person(user: AnyUser, check: Callable[[AnyUser], tuple[bool, str]] = may_act) -> User:
    """The signed-in person who passes `check`, may_act or may_read_yaml. Raises OlmwebError (403)
    with the reason otherwise.
    """
    allowed, why = check(user)
    if not allowed or not isinstance(user, User):
        raise OlmwebError(why, code="not-allowed", status=403)
    return user


def impersonation_for(
    user: AnyUser, check: Callable[[AnyUser], tuple[bool, str]] = may_act
) -> Impersonation | None:
    """The user with their Django groups, or None to act as OLM Web's own account.

    Groups that start with `system:` are left out: they would lift a person above the cluster's
    RBAC. Raises OlmwebError when the user does not pass `check` or has a name no header can carry.
    """
    acting = person(user, check)
    if settings.WRITE_AS == SERVICE_ACCOUNT:
        return None
    groups = tuple(name for name in _group_names(acting) if not name.startswith("system:"))
    try:
        return Impersonation(acting.get_username(), groups)
    except KubeError as error:
        raise as_olmweb_error(error) from error


def _group_names(user: User) -> list[str]:
    """Sorted names of the groups, which were read with the user of the session or with the
    permissions; a superuser without a session has neither."""
    names: list[str] | None = getattr(user, "_group_names", None)
    return sorted(user.groups.values_list("name", flat=True)) if names is None else names


def sign_in_problem(user: User) -> str:
    """Why an account of OpenID Connect has to sign in again; empty for none and for local accounts.

    Its role and groups are those of its last sign-in, so what acts for it without a session (API
    tokens, allow rules, queued actions) ends OLMWEB_OIDC_MAX_AGE after that. No query if
    `oidc_identity` is selected.
    """
    if not hasattr(user, "oidc_identity"):
        return ""
    max_age = timedelta(seconds=settings.OIDC_MAX_AGE)
    if user.last_login is not None and timezone.now() - user.last_login <= max_age:
        return ""
    return f"The last sign-in of {user} is too long ago; {user} has to sign in again."


def may(user: AnyUser, permission: str) -> bool:
    """Whether this signed-in, active person has the permission (`app.codename`)."""
    return isinstance(user, User) and user.is_active and user.has_perm(permission)


def require(permission: str) -> Callable[[AnyUser], None]:
    """A check that raises OlmwebError (403) for people without this permission of _REFUSALS."""

    def check(user: AnyUser) -> None:
        if not may(user, permission):
            message, hint = _REFUSALS[permission]
            raise OlmwebError(message, code="not-allowed", status=403, hint=hint)

    return check


def may_inspect(user: AnyUser) -> tuple[bool, str]:
    """Whether this person may have the image of a bundle inspected, and if not, why."""
    if not user.is_authenticated:
        return False, "Sign in to have an image inspected."
    if not may(user, INSPECT):
        return False, "Operators and admins of OLM Web may have the image inspected."
    return True, ""
