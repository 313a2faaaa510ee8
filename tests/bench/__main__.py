"""`python -m tests.bench`: runs every bench_*.py beside this file, prints a table, writes
`.local/bench.json`. Exit status 1 when a target was missed."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
OUT = FOLDER.parent.parent / ".local" / "bench.json"


def main() -> int:
    rows: list[dict[str, Any]] = []
    for path in sorted(FOLDER.glob("bench_*.py")):
        module = importlib.import_module(f"tests.bench.{path.stem}")
        found = module.run()
        if not found:
            print(f"{path.stem}: skipped, what it measures with is missing", file=sys.stderr)
        rows += found
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print_table(rows)
    return 0 if all(row["ok"] for row in rows) else 1


def print_table(rows: list[dict[str, Any]]) -> None:
    """One line per measurement, columns as wide as they need to be."""
    lines = [("what", "value", "beside", "ratio", "target", "")]
    for row in rows:
        beside = f"{row['reference']} {row['reference_value']}" if row["reference"] else ""
        lines.append(
            (
                row["name"],
                f"{row['value']:,} {row['unit']}",
                beside,
                str(row["ratio"] or ""),
                str(row["target"]),
                "ok" if row["ok"] else "MISSED",
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(6)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
