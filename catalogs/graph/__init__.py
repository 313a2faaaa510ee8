"""The upgrade graph of a package's channels: OLM's rules, upgrade routes, drawings. Pure.

Exports the rules; import layout, svg, mermaid and routes directly.
"""

from catalogs.graph.rules import GraphEntry, Successor, heads, successors, v0_candidates, validate

__all__ = ["GraphEntry", "Successor", "heads", "successors", "v0_candidates", "validate"]
