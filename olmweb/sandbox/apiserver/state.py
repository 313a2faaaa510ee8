"""The state file: the store on disk, so that what a user installed survives a restart."""

import json
import logging
import threading
from pathlib import Path

from olmweb.sandbox.apiserver.store import Store
from olmweb.sandbox.scenario import world

log = logging.getLogger(__name__)

SAVE_SECONDS = 1.0


class StateFile:
    """Loads the store once and saves it whenever it has changed, at most once a second."""

    def __init__(self, path: Path, store: Store) -> None:
        self._path = path
        self._store = store
        self._saved_version = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-state", daemon=True)

    def load(self) -> bool:
        """True when the store now holds the saved state.

        A file of another version of the scenario, or a broken one, is ignored with a warning.
        """
        try:
            saved = json.loads(self._path.read_text())
            if saved["scenario"] != world.fingerprint():
                log.warning("%s is of another version of the scenario: starting anew", self._path)
                return False
            self._store.restore(saved["store"])
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s can't be read (%s): starting anew", self._path, error)
            return False
        self._saved_version = self._store.version
        return True

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3)
        self.save()

    def save(self) -> None:
        """Writes a new file beside the old one and swaps them: a crash leaves one or the other."""
        snapshot = self._store.snapshot()
        if snapshot["version"] == self._saved_version:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(self._path.name + ".new")
        fresh.write_text(json.dumps({"scenario": world.fingerprint(), "store": snapshot}))
        fresh.replace(self._path)
        self._saved_version = snapshot["version"]

    def _run(self) -> None:
        while not self._stopping.wait(SAVE_SECONDS):
            self.save()
