"""The site in a browser: every page fits a phone, is silent on the console, asks no other host, has no dead link."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from tests.report.browser import PATIENCE, chromium

ROOT = Path(__file__).resolve().parents[2]
PHONE = {"width": 390, "height": 844}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder that `make docs` has just built, or a new one."""
    pytest.importorskip("mkdocs", reason="the site needs mkdocs: make docs")
    built = ROOT / "site"
    sources = [ROOT / "mkdocs.yml", *(ROOT / "docs").rglob("*"), *(ROOT / "proofs").rglob("*"), *ROOT.glob("*.md")]
    newest = max(path.stat().st_mtime for path in sources)
    if (built / "sitemap.xml").is_file() and (built / "sitemap.xml").stat().st_mtime > newest:
        return built
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, env=environment)
    return folder


@pytest.fixture(scope="module")
def address(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def pages_of(site: Path) -> list[str]:
    found = (path.relative_to(site).parent.as_posix() for path in site.rglob("index.html"))
    return sorted("" if place == "." else f"{place}/" for place in found)


@pytest.mark.slow
def test_no_link_within_the_site_is_dead(site):
    pages = pages_of(site)
    assert len(pages) > 60
    texts = {page: (site / page / "index.html").read_text("utf-8") for page in pages}
    anchors = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    dead = []
    for page, text in texts.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            target, anchor = urldefrag(urljoin(f"http://site/{page}", link.replace("&amp;", "&")))
            if not target.startswith("http://site/"):
                continue
            place = unquote(target.removeprefix("http://site/").partition("?")[0])
            file = site / place / "index.html" if place.endswith("/") or not place else site / place
            if not file.exists() or (anchor and place in anchors and unquote(anchor) not in anchors[place]):
                dead.append(f"{page}: {link}")
    assert dead == []


@pytest.mark.slow
@pytest.mark.browser
def test_every_page_fits_a_phone_and_is_silent(site, address):
    said: list[str] = []
    wide: list[str] = []
    elsewhere: list[str] = []
    with chromium() as browser:
        context = browser.new_context(viewport=PHONE, color_scheme="dark")
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: said.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
        page.on("request", lambda request: request.url.startswith(address) or elsewhere.append(request.url))
        page.goto(address)
        assert page.evaluate("document.body.getAttribute('data-md-color-scheme')") == "slate"
        assert page.locator("a[href*='sharp-edges']").first.is_visible()
        index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
        nothing = {**index, "docs": []}  # to build the index once is enough work
        page.route("**/search_index.json", lambda route: route.fulfill(json=nothing))
        for place in pages_of(site):
            page.goto(address + place, wait_until="load")
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > PHONE["width"]:
                wide.append(f"{place}: {width}")
    assert said == []
    assert wide == []
    assert elsewhere == []
