"""Revisions of catalogs: a stored outline of every package, and comparisons between revisions.

`record` writes them during a sync, `differences` compares any two, `report` and `text` present
the changes, `effects` says which installed operators they affect.
"""
