"""ASGI entry point of the production web server."""

import gc
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")
django.setup(set_prefix=False)

from olmweb.runtime.postgres import WEB, set_limits  # noqa: E402 - need the apps
from olmweb.serving.server import make_application  # noqa: E402

set_limits(WEB)
application = make_application()

# Code and settings live as long as the process, and a page of many clusters makes tens of thousands
# of objects that live as long as its request: an eighth of its time went into collecting garbage.
gc.collect()
gc.freeze()
gc.set_threshold(10_000, 20, 20)

# A page waits for the database a dozen times. Each time another thread that computes meanwhile may
# keep the interpreter for the whole interval, by default 5 ms.
sys.setswitchinterval(0.0005)
