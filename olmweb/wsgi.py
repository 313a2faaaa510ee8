"""WSGI entry point for gunicorn."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from olmweb.runtime.postgres import WEB, set_limits

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")

application = get_wsgi_application()
if not settings.EMBEDDED:  # there the workers are in this process, too
    set_limits(WEB)
