"""Formats of English, the only language."""
