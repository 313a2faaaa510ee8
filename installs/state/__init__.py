"""The state of clusters, from API objects to rows: decode, list, watch, store, link, derive.

A full pass (`full_sync`) lists everything; watches (`watch`) apply changes in between.
"""
