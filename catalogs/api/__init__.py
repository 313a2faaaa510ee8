"""REST routes of catalogs, packages and bundles, a module for each resource.

`schemas` holds every shape that they answer.
"""
