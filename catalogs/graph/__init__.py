"""The upgrade graph of a package's channels: rules, ways through it, and pictures of it.

Pure: no Django, no Celery, no blobs. Here are the names that others need of the rules; layout,
svg, mermaid and paths are imported by who draws.
"""

from catalogs.graph.rules import Entry, Successor, heads, successors, v0_candidates, validate

__all__ = ["Entry", "Successor", "heads", "successors", "v0_candidates", "validate"]
