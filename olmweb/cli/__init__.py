"""The console script `olmweb`: what OLM Web reads and does, at a terminal.

Commands send the requests of the REST API: to an OLM Web elsewhere with --server, else to the same
views in this process, on its database. `olmweb.cli.main.main` is the entry point.
"""
