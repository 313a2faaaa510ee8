"""A small client for the Kubernetes API: lists, reads, applies, asks. Knows no Django, no Celery.

The only package that imports `kubernetes`: it takes credentials, TLS and the connection pool from
the official client and speaks plain dicts to the rest of the project.
"""
