"""The audit log: who signed in, who used which token, and who changed whose rights.

Each event is a row of AuditEvent and, once that is committed, a line of the logger `olmweb.audit`.
Receivers of Django's signals record what happens to accounts, groups and tokens, so that the admin
pages, sign-ins and commands need no calls of their own. They run in the transaction of the change:
a change that can't be recorded fails. Failures of anonymous clients are bounded, see `attempt`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.models import Group, Permission, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import DatabaseError, transaction
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from olmweb.models import ApiToken, AuditEvent

log = structlog.get_logger("olmweb.audit")

Event = AuditEvent.Event
ATTEMPTS = 30  # rows of failures of one kind in ATTEMPT_WINDOW, of all clients together
ATTEMPT_WINDOW = timedelta(minutes=1)
NAME_LIMIT = 150
UNKNOWN_NAME_LIMIT = 40  # of a name that no account has: anything can be typed there
AGENT_LIMIT = 200
VALUE_LIMIT = 200  # of a text in the details
USES = 10_000  # uses of tokens that a process remembers
OIDC = "OpenID Connect"
FLAGS = ("is_active", "is_staff", "is_superuser")

_request: ContextVar[HttpRequest | None] = ContextVar("audited request", default=None)
_source: ContextVar[str] = ContextVar("source of audited changes", default="")
_uses: set[tuple[int, str, object]] = set()  # (token, address, day) that have a row


class AuditMiddleware:
    """Makes the request known to what records an event while it is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        token = _request.set(request)
        try:
            return self.get_response(request)
        finally:
            _request.reset(token)


@contextmanager
def source(name: str) -> Iterator[None]:
    """Events in this block were caused by `name`, and not by the signed-in person."""
    token = _source.set(name)
    try:
        yield
    finally:
        _source.reset(token)


def client_address(request: HttpRequest) -> str | None:
    """The address of the client: REMOTE_ADDR, which the web server took from a trusted proxy."""
    return request.META.get("REMOTE_ADDR") or None


def printable(text: str, limit: int) -> str:
    """`text` without control, bidirectional and other invisible characters, shortened."""
    shown = "".join(character for character in text if character.isprintable())
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def record(event: str, user: User | None = None, username: str = "", /, **detail: Any) -> None:
    """Writes one event about `user`, or about `username` where there is no account.

    The actor, address and user agent are those of the present request. Raises DatabaseError; call
    it in the transaction of what it records.
    """
    row = _row(event, user, username, detail)
    row.save()
    transaction.on_commit(partial(_write_line, row), robust=True)


def attempt(
    event: str,
    user: User | None = None,
    username: str = "",
    /,
    *,
    once: bool = False,
    **detail: Any,
) -> None:
    """Writes a failure that anybody can cause; never raises for the database.

    Rows are bounded: about ATTEMPTS of this event a minute, and with `once` one a minute for the
    user name and address. Each failure has its log line, with `stored` false without a row.
    """
    row = _row(event, user, username, detail)
    stored = False
    try:
        recent = list(
            AuditEvent.objects.filter(event=event, at__gt=row.at - ATTEMPT_WINDOW)
            .order_by()
            .values_list("username", "address")[:ATTEMPTS]
        )
        repeated = once and (row.username, row.address) in recent
        if len(recent) < ATTEMPTS and not repeated:
            with transaction.atomic():
                row.save()
            stored = True
    except DatabaseError as error:
        log.warning("audit event not stored", error=type(error).__name__)
    _write_line(row, stored=stored)


def token_used(token: ApiToken) -> None:
    """Records the first use of a token from the client's address on a day.

    Later uses cost nothing: the process remembers them, and looks once whether another one did it.
    """
    request = _request.get()
    address = (client_address(request) if request else None) or ""
    start = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    use = (token.pk, address, start)
    if use in _uses:
        return
    rows = AuditEvent.objects.filter(event=Event.TOKEN_USED, at__gte=start, address=address)
    with transaction.atomic():
        # One request after the other: a client often begins with several at once.
        locked = ApiToken.objects.select_for_update().filter(pk=token.pk)
        if locked.exists() and not rows.filter(detail__token=token.pk).exists():
            record(Event.TOKEN_USED, token.user, token=token.pk, scope=token.scope)
    if len(_uses) >= USES:
        _uses.clear()
    _uses.add(use)


def _row(event: str, user: User | None, username: str, detail: dict[str, Any]) -> AuditEvent:
    request = _request.get()
    by = _source.get()
    signed_in = getattr(request, "user", None)
    actor = ""
    if request is None:
        by = by or _process()
    elif not by and isinstance(signed_in, User) and signed_in.pk != (user.pk if user else None):
        actor = signed_in.get_username()
    if by:
        detail = detail | {"by": by}
    name = user.get_username() if user else username
    address = (client_address(request) if request else None) or ""
    agent = request.headers.get("User-Agent", "") if request else ""
    return AuditEvent(
        event=str(event),
        username=printable(name, NAME_LIMIT),
        user=user,
        actor=printable(actor, NAME_LIMIT),
        address=printable(address, 45),
        user_agent=printable(agent, AGENT_LIMIT),
        detail=_short(detail),
    )


def _short(value: Any) -> Any:
    """The value with its texts made printable and short."""
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_short(inner) for inner in value]
    return printable(value, VALUE_LIMIT) if isinstance(value, str) else value


def _process() -> str:
    """The command that runs, such as `manage.py createadmin` or `olmweb token`, without its
    arguments."""
    name = Path(sys.argv[0]).name
    return " ".join([name, *sys.argv[1:2]]) if name in ("manage.py", "olmweb") else name


def _write_line(row: AuditEvent, *, stored: bool = True) -> None:
    log.info(
        row.event,
        id=row.pk,
        user=row.username,
        actor=row.actor,
        address=row.address,
        user_agent=row.user_agent,
        detail=row.detail,
        stored=stored,
    )


# --- sign-in ------------------------------------------------------------------------------------


def _signed_in(request: HttpRequest, user: User, **_: Any) -> None:
    backend = request.session.get(BACKEND_SESSION_KEY, "")
    method = OIDC if backend.endswith("OidcBackend") else "password"
    record(Event.SIGNED_IN, user, method=method)


def _signed_out(user: User | None, **_: Any) -> None:
    """Signing out works while the log can't be written."""
    if user is not None:
        try:
            with transaction.atomic():
                record(Event.SIGNED_OUT, user)
        except DatabaseError as error:
            log.warning("audit event not stored", error=type(error).__name__)


def _sign_in_failed(
    credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    """A password that was wrong, or was not looked at because of a lock.

    Runs after django-axes has counted it. Sign-ins by OpenID Connect are recorded by their view.
    """
    name = credentials.get("username")
    if request is None or not isinstance(name, str):
        return
    name = name.replace("\0", "")
    user = User.objects.filter(username=name).first()
    name = printable(name, UNKNOWN_NAME_LIMIT)
    refused = getattr(request, "sign_in_refused", False)
    reason = "locked" if refused else "wrong user name or password"
    attempt(Event.SIGN_IN_FAILED, user, name, once=refused, method="password", reason=reason)
    if getattr(request, "axes_locked_out", False) and not refused:
        attempt(Event.LOCKED_OUT, user, name)


def unlocked(username: str, address: str) -> None:
    """Records that failed sign-ins of a name, an address or both were forgotten; "" is any."""
    user = User.objects.filter(username=username).first() if username else None
    name = printable(username, UNKNOWN_NAME_LIMIT)
    record(Event.UNLOCKED, user, name, unlocked_address=address or "any")


# --- accounts, groups, tokens -------------------------------------------------------------------


def before_save(instance: Model, fields: tuple[str, ...], update_fields: Any) -> None:
    """Notes the stored values of `fields` for `changes`; no query when none of them is saved."""
    saved = set(fields) if update_fields is None else set(fields) & set(update_fields)
    stored = None
    if saved and instance.pk is not None:
        stored = type(instance)._base_manager.filter(pk=instance.pk).values(*fields).first()
    instance._audited = stored  # type: ignore[attr-defined]


def changes(instance: Model) -> dict[str, tuple[Any, Any]]:
    """Field -> (value before, value now) of what a save changed, after `before_save`."""
    before: dict[str, Any] = getattr(instance, "_audited", None) or {}
    return {
        name: (old, getattr(instance, name))
        for name, old in before.items()
        if old != getattr(instance, name)
    }


def _before_account(instance: User, update_fields: Any, raw: bool, **_: Any) -> None:
    if not raw:
        before_save(instance, ("username", *FLAGS), update_fields)


def _account_saved(instance: User, created: bool, raw: bool, **_: Any) -> None:
    if raw:
        return
    if created:
        flags = {name: True for name in FLAGS[1:] if getattr(instance, name)}
        record(Event.ACCOUNT_CREATED, instance, **flags)
        return
    changed = changes(instance)
    if "username" in changed:
        record(Event.ACCOUNT_RENAMED, instance, before=changed.pop("username")[0])
    if changed:
        record(Event.ROLES_CHANGED, instance, **{name: new for name, (_, new) in changed.items()})
    # Django's own mark of set_password; a hash that was only renewed at a sign-in has none.
    if instance._password is not None:  # type: ignore[attr-defined]
        record(Event.PASSWORD_CHANGED, instance)


def _account_deleted(instance: User, **_: Any) -> None:
    record(Event.ACCOUNT_DELETED, instance)


def _members_changed(
    sender: type[Model],
    instance: Model,
    action: str,
    reverse: bool,
    model: type[Model],
    pk_set: set[int] | None,
    **_: Any,
) -> None:
    """Groups of accounts, and permissions of accounts and of groups; from either side."""
    if action == "pre_clear":
        rows = sender._base_manager.filter(**{str(instance._meta.model_name): instance.pk})
        pk_set = set(rows.values_list(f"{model._meta.model_name}_id", flat=True))
    elif action not in ("post_add", "post_remove"):
        return
    others = list(model._base_manager.filter(pk__in=pk_set or ()))
    holders, given = (others, [instance]) if reverse else ([instance], others)
    if not holders or not given:
        return
    verb = "added" if action == "post_add" else "removed"
    kind = "groups" if isinstance(given[0], Group) else "permissions"
    detail = {f"{kind}_{verb}": sorted(map(_name_of, given))}
    for holder in holders:
        if isinstance(holder, User):
            record(Event.ROLES_CHANGED, holder, **detail)
        elif isinstance(holder, Group):
            record(Event.GROUP_CHANGED, group=holder.name, **detail)


def _name_of(row: Model) -> str:
    if isinstance(row, Permission):
        return f"{row.content_type.app_label}.{row.codename}"
    return str(row)


def _before_group(instance: Group, update_fields: Any, raw: bool, **_: Any) -> None:
    if not raw:
        before_save(instance, ("name",), update_fields)


def _group_saved(instance: Group, created: bool, raw: bool, **_: Any) -> None:
    changed = {} if created or raw else changes(instance)
    if changed:
        record(Event.GROUP_CHANGED, group=instance.name, before=changed["name"][0])


def _group_deleted(instance: Group, **_: Any) -> None:
    members = instance.user_set.count()
    record(Event.GROUP_CHANGED, group=instance.name, deleted=True, members=members)


def _token_saved(instance: ApiToken, created: bool, raw: bool, **_: Any) -> None:
    if created and not raw:
        ends = instance.ends_at.date().isoformat()
        record(Event.TOKEN_ISSUED, instance.user, **_token(instance), ends=ends)


def _token_deleted(instance: ApiToken, **_: Any) -> None:
    """By hand or with its account; one that expired is only tidied up."""
    if instance.ends_at > timezone.now():
        record(Event.TOKEN_REVOKED, instance.user, **_token(instance))


def _token(row: ApiToken) -> dict[str, Any]:
    """Number and scope, and the name of a token that has one."""
    name = {"name": row.name} if row.name else {}
    return {"token": row.pk, **name, "scope": row.scope}


def connect() -> None:
    """Connects the receivers; after django-axes has connected its own.

    Deletions are recorded before they are made, while the account can still be referred to.
    """
    user_logged_in.connect(_signed_in)
    user_logged_out.connect(_signed_out)
    user_login_failed.connect(_sign_in_failed)
    pre_save.connect(_before_account, sender=User)
    post_save.connect(_account_saved, sender=User)
    pre_delete.connect(_account_deleted, sender=User)
    pre_save.connect(_before_group, sender=Group)
    post_save.connect(_group_saved, sender=Group)
    pre_delete.connect(_group_deleted, sender=Group)
    for many_to_many in (User.groups, User.user_permissions, Group.permissions):
        m2m_changed.connect(_members_changed, sender=many_to_many.through)
    post_save.connect(_token_saved, sender=ApiToken)
    pre_delete.connect(_token_deleted, sender=ApiToken)
