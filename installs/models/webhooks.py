"""Receivers of webhooks that administrators add, and what was sent to them."""

from django.db import models
from django.template.defaultfilters import pluralize
from django.utils import timezone


class WebhookReceiver(models.Model):
    """An address that gets the events of olmweb.eventlog which `types` and `clusters` select; an
    empty list selects all.

    `url` and `secret` are never shown: both may hold credentials. Events up to `position` are done.
    While the receiver fails, `attempts` counts and nothing is sent before `next_at`.
    """

    class Format(models.TextChoices):
        JSON = "json", "JSON"
        CLOUDEVENTS = "cloudevents", "CloudEvents"
        SLACK = "slack", "Slack"
        ALERTMANAGER = "alertmanager", "Alertmanager"

    name = models.CharField(max_length=60, unique=True)
    url = models.CharField("address", max_length=2000)
    format = models.CharField(max_length=20, choices=Format.choices, default=Format.JSON)
    types = models.JSONField(default=list, blank=True)
    clusters = models.JSONField(default=list, blank=True)
    secret = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    position = models.PositiveBigIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class WebhookDelivery(models.Model):
    """One request body for a receiver, with the ids of its events; sent again while it fails."""

    class State(models.TextChoices):
        PENDING = "pending"  # to be sent again, by a person
        FAILING = "failing"  # tried, and to be tried again
        SENT = "sent"
        GIVEN_UP = "given-up", "given up"

    receiver = models.ForeignKey(
        WebhookReceiver, on_delete=models.CASCADE, related_name="deliveries"
    )
    events = models.JSONField(default=list)
    state = models.CharField(max_length=20, choices=State.choices)
    attempts = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "webhook deliveries"
        indexes = (
            models.Index(fields=("receiver", "state")),
            models.Index(fields=("created_at",)),
        )

    def __str__(self) -> str:
        events = f"{len(self.events)} event{pluralize(self.events)}"
        return f"{self.receiver}: {events}, {self.get_state_display()}"
