"""Verdicts as rows: `catalogs.verdicts.store` writes them, `catalogs.verdicts.read` reads.

Knows no rule: a verdict is a value of `catalogs.verdicts.Verdict`.
"""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from olmweb.models import Cluster


class Prediction(models.Model):
    """Whether a bundle can be installed by one path.

    `cluster` is None for what catalog facts alone say. A row with a cluster is there only where the
    cluster's facts change what is said: readers lay it over the other. `chosen`: the bundle that
    the path's controller would take when nothing is installed; where it takes none, `bundle` is
    None. `target` is what a Subscription's OperatorGroup selects: all namespaces, or its own.
    """

    package = models.ForeignKey(
        "catalogs.Package", on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    bundle = models.ForeignKey(
        "catalogs.Bundle",
        null=True,
        on_delete=models.CASCADE,
        related_name="+",
        db_constraint=False,
    )
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    path = models.CharField(max_length=20)
    target = models.CharField(max_length=5)
    chosen = models.BooleanField(default=False)
    channel = models.CharField(max_length=300, blank=True)  # where the chosen one was found
    verdict = models.CharField(max_length=20)
    rule = models.CharField(max_length=60, blank=True)  # the deciding one; empty: installable
    sentence = models.TextField(blank=True)  # of the worst rule
    results = models.JSONField(default=list)  # [{"rule", "verdict", "sentence"}], worst first

    class Meta:
        ordering = ("package", "bundle", "path", "target")
        indexes = (
            # What a list asks for: the chosen ones only, a tenth of all.
            models.Index(
                fields=("package", "path"),
                condition=Q(chosen=True),
                name="prediction_chosen",
            ),
        )

    def __str__(self) -> str:
        return f"{self.bundle_id or '-'} {self.path}: {self.verdict}"


class PredictionRun(models.Model):
    """What a catalog's predictions came to, on one cluster or from the catalog alone.

    A row for each outcome that differs from the one before: the newest is what the rows of
    Prediction say, the others are its history. `inputs` is a hash of everything that was looked
    at; `counts` maps path to {verdict: packages}, of the chosen bundles.
    """

    catalog = models.ForeignKey(
        "catalogs.Catalog", on_delete=models.CASCADE, related_name="prediction_runs"
    )
    cluster = models.ForeignKey(Cluster, null=True, on_delete=models.CASCADE, related_name="+")
    revision = models.PositiveIntegerField(default=0)  # of the catalog
    rules_version = models.PositiveIntegerField()
    inputs = models.CharField(max_length=64)
    counts = models.JSONField(default=dict)
    at = models.DateTimeField(default=timezone.now)
    evaluated_at = models.DateTimeField(
        default=timezone.now
    )  # of the last evaluation, also without a new outcome

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("catalog", "cluster", "-id")),)

    def __str__(self) -> str:
        return f"predictions of {self.catalog_id} #{self.revision}"
