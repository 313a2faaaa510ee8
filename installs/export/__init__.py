"""Export instead of install: the same manifests as files for Git, pinned to the resolved version.

`plan` reads the values of a request against stored rows, `files` makes the files. Asks no cluster.
"""
