"""Diagnosis of objects by their conditions: health, broken link of the chain, cause and remedy.

Pure: uses neither Django nor clusters. Texts and patterns are data in `installs/knowledge/`.
"""
