"""What the measurements share: environments of the processes, waiting, rows of the table."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, LiteralString

import psycopg

ROOT = Path(__file__).resolve().parent.parent.parent


def environment(folder: Path, **more: str) -> dict[str, str]:
    """This process's environment without OLM Web's settings, with data in `folder` and `more`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OLMWEB_")}
    for name in ("DATABASE_URL", "REDIS_URL", "KUBECONFIG"):
        kept.pop(name, None)
    return kept | {
        "DJANGO_SETTINGS_MODULE": "olmweb.settings",
        "OLMWEB_DATA_DIR": str(folder / "data"),
        "PYTHONPATH": str(ROOT),
        **more,
    }


def migrate(environ: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
    subprocess.run(command, check=True, capture_output=True, env=environ)


def until(done: Callable[[], bool], seconds: float, pause: float = 0.25) -> bool:
    """Waits until `done`, at most so long; whether it came true shows in what is measured."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if done():
            return True
        time.sleep(pause)
    return False


def one(database: psycopg.Connection[Any], statement: LiteralString, *values: Any) -> int:
    """The number that a query gives."""
    found = database.execute(statement, values).fetchone()
    return int(found[0]) if found else 0


def at_rest(process: int, seconds: float) -> tuple[float, float]:
    """Cores that a process takes for so long, and MB of memory that it holds then."""
    before = _processor_seconds(process)
    time.sleep(seconds)
    cores = (_processor_seconds(process) - before) / seconds
    pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    return cores, pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def _processor_seconds(process: int) -> float:
    after_name = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    user, system = after_name.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def row(
    name: str,
    value: float,
    unit: str,
    limit: float,
    *,
    at_least: bool = False,
    beside: tuple[str, float] | None = None,
) -> dict[str, Any]:
    """A row of the table; `limit` is of the value or, with `beside`, of its ratio to that."""
    ratio = value / beside[1] if beside else None
    counts = value if ratio is None else ratio
    return {
        "name": name,
        "value": round(value, 3),
        "unit": unit,
        "reference": beside[0] if beside else "",
        "reference_value": round(beside[1], 3) if beside else None,
        "ratio": round(ratio, 3) if ratio is not None else None,
        "target": f"{'>=' if at_least else '<='} {limit:g} {'x' if beside else unit}",
        "ok": counts >= limit if at_least else counts <= limit,
    }
