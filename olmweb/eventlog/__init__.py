"""The log of what happened: operators, actions, install requests, catalogs and clusters.

`types` names the events and their data, `record` writes and numbers them, `read` is behind the list
and the stream of /api/v1/events.
"""
