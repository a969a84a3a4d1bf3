"""Debian's Chromium, driven by playwright, without network; skips with a message where either is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 120_000  # milliseconds: a busy machine is slow, which says nothing about the page


@contextmanager
def chromium() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: browser tests are skipped")
    program = os.environ.get("DPKMEANS_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no chromium on this machine: install it (apt-get install chromium) to run the browser tests")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, timeout=PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page that was opened offline, with everything it said and asked for."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.context = browser.new_context(offline=True, **context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def others(self) -> list[str]:
        """What it asked for besides itself and its own pictures."""
        return [url for url in self.asked[1:] if not url.startswith("data:")]

    def close(self) -> None:
        self.context.close()


def violations(page: Any) -> list[str]:
    """What axe-core has to say about a page: the rule and the first element that breaks it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]
