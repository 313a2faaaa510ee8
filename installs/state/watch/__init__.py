"""Keeps the rows of a cluster current by watches that resume where they ended.

`run` follows a cluster, `session` and `threads` read and write, `positions` and `backoff` decide
where and when a watch starts, `scheduling` which worker watches which cluster.
"""
