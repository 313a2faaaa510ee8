"""The frame of the REST API: authentication, errors, parameters, lists, formats, the docs page.

The routes are in the `api` packages of the apps; `routes` puts them together.
"""
