"""The audit log of webhook receivers: who changed, tested or repeated what, and from where.

Addresses and secrets are not recorded: the host alone names where events go.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.db.models.signals import post_save, pre_delete, pre_save

from installs.models import WebhookDelivery, WebhookReceiver
from olmweb.accounts import audit

FIELDS = ("name", "url", "format", "types", "clusters", "secret", "enabled")  # that people edit


def record_test(receiver: WebhookReceiver, error: str) -> None:
    """A test event was sent; `error` is empty if it was accepted."""
    _record(audit.Event.RECEIVER_TESTED, receiver, result=error or "accepted")


def record_sent_again(deliveries: Sequence[WebhookDelivery]) -> None:
    """One event for each receiver, with the numbers of the first deliveries."""
    counts = Counter(row.receiver for row in deliveries)
    for receiver, count in counts.items():
        ids = [row.pk for row in deliveries if row.receiver_id == receiver.pk]
        _record(audit.Event.DELIVERIES_SENT_AGAIN, receiver, count=count, deliveries=ids[:20])


def connect() -> None:
    """Connects the receivers of Django's signals that record changes of rows."""
    pre_save.connect(_before_save, sender=WebhookReceiver)
    post_save.connect(_saved, sender=WebhookReceiver)
    pre_delete.connect(_deleted, sender=WebhookReceiver)


def _before_save(instance: WebhookReceiver, update_fields: Any, raw: bool, **_: Any) -> None:
    """No query for a worker that moves the position."""
    if not raw:
        audit.before_save(instance, FIELDS, update_fields)


def _saved(instance: WebhookReceiver, created: bool, raw: bool, **_: Any) -> None:
    if raw:
        return
    if created:
        selection = {"types": instance.types, "clusters": instance.clusters}
        signed = bool(instance.secret)
        _record(audit.Event.RECEIVER_CREATED, instance, format=instance.format, **selection,
                signed=signed, enabled=instance.enabled)  # fmt: skip
        return
    changed = audit.changes(instance)
    if "secret" in changed:
        before, after = changed.pop("secret")
        word = "removed" if not after else "rotated" if before else "added"
        _record(audit.Event.RECEIVER_SECRET_CHANGED, instance, secret=word)
    if "url" in changed:
        before, after = changed.pop("url")
        changed["host"] = (_host(before), _host(after))
    if changed:
        values = {name: {"before": old, "after": new} for name, (old, new) in changed.items()}
        _record(audit.Event.RECEIVER_CHANGED, instance, changed=values)


def _deleted(instance: WebhookReceiver, **_: Any) -> None:
    _record(audit.Event.RECEIVER_DELETED, instance)


def _record(event: str, receiver: WebhookReceiver, **detail: Any) -> None:
    place = {"receiver": receiver.pk, "name": receiver.name, "host": _host(receiver.url)}
    audit.record(event, **place, **detail)


def _host(address: str) -> str:
    return urlsplit(address).netloc.rpartition("@")[2]
