"""A Python client that openapi-python-client generates from the OpenAPI document."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

NAME = "olmweb_client"
TIMEOUT = 30  # seconds


class GeneratedClient:
    """The package of the client and the functions of its operations."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._tags = {
            operation["operationId"]: operation["tags"][0].lower().replace(" ", "_")
            for methods in document["paths"].values()
            for operation in methods.values()
        }
        self.package = importlib.import_module(NAME)

    def connect(self, server: str, token: str) -> Any:
        return self.package.AuthenticatedClient(
            base_url=server, token=token, timeout=httpx.Timeout(TIMEOUT)
        )

    def function(self, operation: str) -> Any:
        """Takes the parameters of the operation and `client`; returns status, headers, `parsed`."""
        module = importlib.import_module(f"{NAME}.api.{self._tags[operation]}.{operation}")
        return module.sync_detailed

    def model(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{NAME}.models"), name)

    def body(self, name: str, /, **fields: Any) -> Any:
        """The body of a request, with plain values for its enums."""
        return self.model(name).from_dict(fields)


@contextmanager
def generated_client(document: bytes, folder: Path) -> Iterator[GeneratedClient]:
    """Generates the client into `folder`; it can be imported until the end of the block."""
    path = folder / "openapi.json"
    path.write_bytes(document)
    run = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate",
         "--path", path, "--meta", "none", "--output-path", folder / NAME],
        capture_output=True, text=True, check=True, cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    output = run.stdout + run.stderr
    assert "Unable to process" not in output, output
    # Only the bytes of files are no type that it knows.
    assert output.count("WARNING") == output.count("Unsupported content_type"), output
    sys.path.insert(0, str(folder))
    try:
        yield GeneratedClient(json.loads(document))
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
            del sys.modules[name]
