"""Syncs catalogs: from the content of a source to rows, in one transaction per catalog.

`catalog` runs one sync, `package_rows` builds the rows, `pool` spreads that over processes,
`replace` and `write` store what changed, `deletion` removes catalogs and unreferenced blobs.
"""
