"""Catalogs that are images in an OCI registry: read by its API, nothing is run or unpacked."""
