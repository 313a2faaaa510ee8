"""Bulk install: many packages, one review, one confirmation, an Action each.

`selection` says what was selected and what speaks against it, `reviewing` plans and tries it,
`recording` writes the batch. Sends nothing: that is the worker's, see installs.actions.bulk.pacing.
"""
