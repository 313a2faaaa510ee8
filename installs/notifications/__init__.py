"""Webhook notifications of changes of health: which are sent, in which format, and sending.

`select` writes a row per change, `send` delivers the rows, `formats` has the request bodies.
"""
