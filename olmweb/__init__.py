"""The project package: settings, the Celery app, and what both apps share."""

from olmweb.celery import app as celery_app

__version__ = "0.1.0"
__all__ = ("__version__", "celery_app")
