"""Loaded as a pytest plugin before anything reads settings: a developer's own must not leak in."""

import os
import shutil
import tempfile

for name in list(os.environ):
    if name.startswith("OLMWEB_") and not name.startswith("OLMWEB_TEST_"):
        del os.environ[name]
for name in ("REDIS_URL", "KUBECONFIG"):
    os.environ.pop(name, None)
os.environ["OLMWEB_DATA_DIR"] = tempfile.mkdtemp(prefix="olmweb-tests-")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["OLMWEB_DATA_DIR"], ignore_errors=True)
