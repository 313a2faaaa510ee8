"""A client for the Kubernetes API: discovery, lists, watches, applies, access reviews.

The only package that imports `kubernetes`: it takes credentials, TLS and the connection pool from
the official client and gives plain dicts to the rest of the project. Pure of Django and Celery.
"""
