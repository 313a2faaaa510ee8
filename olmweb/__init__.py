"""The project package: settings, the Celery app, and what both apps share."""

from olmweb.celery import app as celery_app

__all__ = ("celery_app",)
