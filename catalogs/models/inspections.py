"""What the images of bundles were found to hold."""

from django.db import models
from django.utils import timezone


class BundleManifests(models.Model):
    """What a bundle's image holds, stored once by the image's digest; see catalogs.contents."""

    digest = models.CharField(max_length=140, primary_key=True)
    data = models.BinaryField()  # zstd of JSON
    size = models.PositiveIntegerField()  # bytes before compression
    objects_held = models.PositiveIntegerField()  # the ClusterServiceVersion among them

    class Meta:
        verbose_name_plural = "bundle manifests"

    def __str__(self) -> str:
        return self.digest


class BundleInspection(models.Model):
    """That somebody asked what a bundle's image holds, by the reference that catalogs give it."""

    class State(models.TextChoices):
        QUEUED = "queued"
        READING = "reading"
        READ = "read"
        FAILED = "failed"

    image = models.CharField(max_length=1000, unique=True)
    state = models.CharField(max_length=20, choices=State.choices, default=State.QUEUED)
    manifests = models.ForeignKey(
        BundleManifests, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )  # of the last time that it was read
    asked_by = models.CharField(max_length=150, blank=True)
    asked_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    done = models.PositiveBigIntegerField(default=0)  # bytes, while it is read
    total = models.PositiveBigIntegerField(default=0)
    requests = models.PositiveIntegerField(default=0)  # what it cost
    bytes_read = models.PositiveBigIntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(blank=True)
    error_hint = models.TextField(blank=True)

    class Meta:
        ordering = ("-asked_at", "-id")

    def __str__(self) -> str:
        return self.image
