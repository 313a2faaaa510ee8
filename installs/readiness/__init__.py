"""Upgrade readiness: what blocks the next minor version of a cluster, and the way out of each.

Owns the rules and reads stored rows only; asks no cluster and knows no page.
"""

from installs.readiness.obstacles import TITLES, Weight
from installs.readiness.report import Readiness, Row, readiness

__all__ = ["TITLES", "Readiness", "Row", "Weight", "readiness"]
