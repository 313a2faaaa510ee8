"""Bulk install: many packages, one review, one confirmation, an Action each.

`selection` reads the selected packages and what speaks against each, `review` plans and tries them,
`batches` writes the rows and says which actions a worker may begin. Sends nothing.
"""
