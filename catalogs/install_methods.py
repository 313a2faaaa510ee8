"""The install methods: kinds of object that install a package. Pure."""

from enum import StrEnum
from typing import Self


class InstallMethod(StrEnum):
    """The Kubernetes kind of the object that installs a package."""

    PLATFORM_OPERATOR = "PlatformOperator"
    CLUSTER_EXTENSION = "ClusterExtension"
    SUBSCRIPTION = "Subscription"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a kind in any case. Raises ValueError with a sentence for anything else."""
        for method in cls:
            if method.lower() == text.strip().lower():
                return method
        raise ValueError(f'"{text[:40]}" is no install method: use {", ".join(cls)}.')
