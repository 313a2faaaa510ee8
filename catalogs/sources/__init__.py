"""Reads catalog content into a spool file: files, URLs, images, catalogd, registries over gRPC.

`select` makes the source of a Catalog row; `access_methods` decides which method is used when a
cluster's catalog can be read by several.
"""
