"""ASGI entry point of the production web server."""

import gc
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")
django.setup(set_prefix=False)

from django.apps import apps  # noqa: E402 - these need the apps
from django.conf import settings  # noqa: E402
from django.template.loader import get_template  # noqa: E402

from olmweb.runtime.postgres import WEB, set_limits  # noqa: E402
from olmweb.serving.server import make_application  # noqa: E402


def load_pages() -> None:
    """Imports the views, compiles the templates and reads the explanations: the first page after a
    start would wait a second for them."""
    import_module(settings.ROOT_URLCONF)
    folder = Path(settings.BASE_DIR) / "templates"
    for file in sorted(folder.rglob("*.html")):
        get_template(str(file.relative_to(folder)))
    installs: Any = apps.get_app_config("installs")
    installs.load_knowledge()


set_limits(WEB)
load_pages()
application = make_application()

# Code and settings live as long as the process, and a page of many clusters makes tens of thousands
# of objects that live as long as its request: an eighth of its time went into collecting garbage.
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 20)
