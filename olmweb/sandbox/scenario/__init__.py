"""The demo's cluster: its objects at the start, and its file-based catalogs.

`data/` has the facts; everything else is derived from them, the same at every start.
"""
