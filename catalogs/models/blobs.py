"""The blobs of catalogs byte for byte, each stored once, many packed together."""

from django.db import models

from catalogs.models.catalogs import Catalog


class BlobPack(models.Model):
    """Blobs of one package in one zstd frame; see catalogs.storage."""

    size = models.PositiveIntegerField()  # bytes before compression
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.pk} ({self.size} bytes)"


class Blob(models.Model):
    """A blob of FBC, stored once for all catalogs: its position in a pack."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    pack = models.ForeignKey(
        BlobPack, on_delete=models.CASCADE, related_name="blobs", db_constraint=False
    )
    start = models.PositiveIntegerField(default=0)  # in the pack's bytes before compression
    size = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.sha256


class BlobRef(models.Model):
    """The position of a blob in a catalog; every blob of every schema has a row."""

    catalog = models.ForeignKey(
        Catalog, on_delete=models.CASCADE, related_name="blob_refs", db_index=False
    )  # the index below begins with it
    package = models.CharField(max_length=253, blank=True)
    schema = models.CharField(max_length=253, blank=True)
    name = models.CharField(max_length=500, blank=True)
    ordinal = models.PositiveIntegerField()  # position in the package's part of the catalog
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, db_index=False, db_constraint=False)

    class Meta:
        ordering = ("catalog", "package", "ordinal")
        indexes = (
            models.Index(fields=("catalog", "package")),
            # An index of the field itself would add another for LIKE, which no query uses.
            models.Index(fields=("blob",), name="catalogs_blobref_blob"),
        )

    def __str__(self) -> str:
        return f"{self.schema} {self.name}"
