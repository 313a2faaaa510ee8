"""The journeys' browser itself: a Chromium that hangs costs one journey at most."""

import os
import signal

import pytest

from tests.e2e.browser import Chromium

pytestmark = pytest.mark.e2e


def test_a_browser_that_does_not_answer_is_killed_and_replaced(
    chromium_process: Chromium,
) -> None:
    hanging = chromium_process.running()
    context = hanging.new_context()
    os.kill(chromium_process.process_id, signal.SIGSTOP)
    with pytest.warns(UserWarning, match="killed"):
        chromium_process.close(context, within=1)
    page = chromium_process.running().new_page()
    page.set_content("<h1>Here again</h1>")
    assert page.get_by_role("heading").inner_text() == "Here again"
    page.close()
