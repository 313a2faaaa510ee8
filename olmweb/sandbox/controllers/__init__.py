"""Stand-ins for OLM v0, OLM v1, platform operators and rukpak, and their catalog APIs.

They move objects in the API server's store a step at a time. Must not know scenarios.
"""
