"""What clusters said of who may do what."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from olmweb.models import Cluster


class AccessAnswer(models.Model):
    """A cluster's answer to an access review about one person. A worker asks, pages read.

    `as_whom` tells as which name and groups was asked: with others it says nothing.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=60)
    verb = models.CharField(max_length=20)
    namespace = models.CharField(max_length=63, blank=True)  # empty: in all of them
    as_whom = models.CharField(max_length=64)
    allowed = models.BooleanField()
    reason = models.TextField(blank=True)
    checked_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("user", "cluster", "kind", "verb", "namespace")
        constraints = (
            models.UniqueConstraint(
                fields=("user", "cluster", "kind", "verb", "namespace"),
                name="one_answer_per_question",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user}: {self.verb} {self.kind} on {self.cluster}: {self.allowed}"
