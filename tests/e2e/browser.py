"""The browser of the journeys."""

import os
import signal
import threading
import warnings

from playwright.sync_api import Browser, BrowserContext, Playwright
from playwright.sync_api import Error as PlaywrightError

from tests.e2e.product import CHROMIUM_FLAGS

CLOSE_SECONDS = 60  # of a second, usually


class Chromium:
    """One Chromium for all journeys; it is replaced when it ended."""

    def __init__(self, playwright: Playwright, path: str) -> None:
        self.playwright = playwright
        self.path = path
        self.browser = self._launch()

    def running(self) -> Browser:
        if not self.browser.is_connected():
            self.browser = self._launch()
        return self.browser

    def close(self, context: BrowserContext, within: float = CLOSE_SECONDS) -> None:
        """Chromium now and then never answers when a page is closed (seen while a form was on its
        way): it is killed then, after the journey has passed or failed by itself."""
        killing = threading.Timer(within, os.kill, (self.process_id, signal.SIGKILL))
        killing.start()
        try:
            context.close()
        except PlaywrightError:
            if self.browser.is_connected():
                raise
            warnings.warn("Chromium did not close a page in time and was killed", stacklevel=2)
        finally:
            killing.cancel()

    def _launch(self) -> Browser:
        browser = self.playwright.chromium.launch(executable_path=self.path, args=CHROMIUM_FLAGS)
        session = browser.new_browser_cdp_session()
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
        [self.process_id] = [each["id"] for each in processes if each["type"] == "browser"]
        session.detach()
        return browser
