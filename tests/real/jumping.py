"""`python -m tests.real.jumping FILE ...`: `celery ...` on a machine whose clock a test sets.

FILE holds by how many seconds the clock is wrong; a jump is seen within a tenth of a second. As on
a real machine, monotonic time goes on. Must not know what the process does.
"""

import sys
import threading
import time
from pathlib import Path

import time_machine
from celery.__main__ import main

LOOK_SECONDS = 0.1


def follow(file: Path) -> None:
    """Sets the clock as the file says, whenever it says something else."""
    began, wall = time.monotonic(), time.time()
    told, traveller = 0.0, None
    while True:
        text = file.read_text(encoding="ascii").strip()
        if text and float(text) != told:
            told = float(text)
            if traveller is not None:
                traveller.stop()
            true_now = wall + time.monotonic() - began
            traveller = time_machine.travel(true_now + told, tick=True)
            traveller.start()
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    threading.Thread(target=follow, args=(Path(sys.argv.pop(1)),), daemon=True).start()
    main()
