"""ASGI entry point of the production web server."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")
django.setup(set_prefix=False)

from olmweb.runtime.postgres import WEB, set_limits  # noqa: E402 - need the apps
from olmweb.serving.server import make_application  # noqa: E402

set_limits(WEB)
application = make_application()
