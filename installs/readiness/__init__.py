"""Upgrade readiness: what blocks the next minor version of a cluster, with remedies, and whether
Subscriptions can be migrated to OLM v1. From stored rows only, without requests to clusters.
"""

from installs.readiness.blockers import TITLES, Weight
from installs.readiness.report import Readiness, ReadinessRow, readiness

__all__ = ["TITLES", "Readiness", "ReadinessRow", "Weight", "readiness"]
