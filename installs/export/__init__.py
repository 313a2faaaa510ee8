"""Export instead of install: the same manifests as files for Git, pinned to what was resolved.

Owns the forms of the files; the objects are `installs.methods`'. Pure but for `asked`,
which reads a request's words against stored rows. Asks no cluster.
"""
