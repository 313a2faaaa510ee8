"""Blob storage: every blob of every catalog byte for byte, stored once, in compressed packs.

`packs` builds packs and is pure; `blobs` reads and writes the database.
"""
