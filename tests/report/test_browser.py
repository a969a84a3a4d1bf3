"""The report in a real browser, offline: it asks for nothing, complains of nothing, moves, and shows the numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.report.browser import Watched, chromium

from dpkmeans import Category, Date, DPKMeans, Number
from dpkmeans.core.epsilon import format_epsilon
from dpkmeans.core.readable import centroid_rows, size_texts
from dpkmeans.methods.lu_shen.strategies import posterior
from dpkmeans.report import write_report

pytestmark = pytest.mark.browser

WIDTHS = {"phone": {"width": 360, "height": 740}, "desk": {"width": 1200, "height": 900}}


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(5)
    return np.concatenate([rng.normal(c, 4.0, (2500, 2)) for c in ((20, 20), (80, 25), (50, 80))])


@pytest.fixture(scope="module")
def release(records):
    return DPKMeans(3, epsilon=1.0, bounds=(0, 100), method="synopsis-posterior").fit(records).release_


@pytest.fixture(scope="module")
def page_file(release, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(release, path)
    return path


@pytest.fixture
def opened(browser, page_file):
    watched = Watched(browser, page_file, viewport=WIDTHS["desk"])
    yield watched
    watched.close()


def test_it_asks_for_nothing_and_complains_of_nothing(opened):
    opened.page.click("#play")
    opened.page.wait_for_timeout(300)
    assert opened.others() == []
    assert opened.said == []


def test_the_policy_stops_a_script_that_is_not_ours(opened):
    opened.page.evaluate("""() => {
        const s = document.createElement("script"); s.textContent = "window.stranger = 1"; document.body.append(s);
        new Image().src = "http://example.invalid/x.png"; }""")
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("window.stranger") is None
    assert any("Content Security Policy" in line for line in opened.said)


def test_the_tables_have_the_numbers_of_the_release(opened, release):
    rows = opened.page.eval_on_selector_all(
        "section[aria-labelledby=centroids] tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    found = release.intervals(0.95)
    cells = zip(centroid_rows(release, None, found), size_texts(release, found), strict=True)
    expected = [[str(i), *centroid, size] for i, (centroid, size) in enumerate(cells)]
    assert rows == expected
    text = opened.page.inner_text("section[aria-labelledby=budget]")
    assert all(format_epsilon(float(spend.epsilon)) in text for spend in release.spends)
    holds = opened.page.eval_on_selector_all(
        "section[aria-labelledby=certificate] td", "c => c.map(x => x.textContent)"
    )
    assert holds
    assert set(holds) == {"✓ holds"}


def where(page, shape):
    return page.evaluate(f"['cx','cy','rx','ry'].map(n => +document.getElementById('{shape}').getAttribute(n))")


def test_the_animation_moves_and_its_zones_can_be_seen(opened):
    page = opened.page
    for shape in ("ball", "zone"):
        sizes = [where(page, f"{shape}{i}") for i in range(3)]
        assert max(size[2] for size in sizes) > 3
        assert page.locator(f"#{shape}0").get_attribute("visibility") == "visible"
    page.fill("#position", "0")
    before = [where(page, f"centroid{i}")[:2] for i in range(3)]
    said = page.inner_text("#now")
    page.click("#play")
    page.wait_for_timeout(1800)
    after = [where(page, f"centroid{i}")[:2] for i in range(3)]
    assert np.abs(np.array(before) - np.array(after)).max() > 1
    assert page.inner_text("#now") != said
    page.click("#play")
    assert page.inner_text("#play") == "Play"


def test_a_sampling_zone_lies_in_its_convergent_zone_and_holds_its_centroid(opened):
    page = opened.page
    for step in (1, 2):
        page.fill("#position", str(step))
        for i in range(3):
            if page.locator(f"#zone{i}").get_attribute("visibility") == "hidden":
                assert step > 1  # it may converge after one step
                continue
            zone, ball, centroid = (where(page, f"{kind}{i}") for kind in ("zone", "ball", "centroid"))
            assert np.hypot(zone[0] - ball[0], zone[1] - ball[1]) + zone[2] <= ball[2] + 0.5
            assert np.hypot(zone[0] - centroid[0], zone[1] - centroid[1]) <= zone[2] + 0.5


def test_all_controls_work_from_the_keyboard(opened):
    page = opened.page
    page.focus("#next")
    page.keyboard.press("Enter")
    assert page.input_value("#position") == "2"
    page.focus("#position")
    page.keyboard.press("Home")
    assert page.inner_text("#now") == "Start."
    page.focus("nav a")
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#guarantee"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_screen_and_its_text_can_be_read(browser, page_file, scheme, width, tmp_path):
    watched = Watched(browser, page_file, viewport=WIDTHS[width], color_scheme=scheme)
    page = watched.page
    page.screenshot(path=str(tmp_path / "shot.png"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]["width"]
    assert page.evaluate(CONTRASTS) == []
    dark = np.mean(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")) < 100
    assert dark == (scheme == "dark")
    watched.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_with_a_schema_fits_the_screen_and_its_zones_are_round(browser, width, tmp_path):
    rng = np.random.default_rng(2)
    many = Category(*(f"a level with a long name {i}" for i in range(30)))
    schema = {"age": Number(0, 100), "income": Number(0, 1e5), "town": many, "joined": Date("2015-01-01", "2025-12-31")}
    young = rng.random(6000) < 0.5
    frame = pd.DataFrame({"age": np.where(young, 20.0, 80.0), "income": np.where(young, 2e4, 8e4)})
    frame = frame.assign(town="a level with a long name 3", joined="2019-05-01")
    seeded = {"method": "synopsis-posterior", "random_state": 0, "guarantee": "none"}
    model = DPKMeans(2, epsilon=5.0, schema=schema, scale="box", **seeded).fit(frame)
    write_report(model.release_, tmp_path / "report.html")
    watched = Watched(browser, tmp_path / "report.html", viewport=WIDTHS[width])
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]["width"]
    assert watched.page.evaluate(CONTRASTS) == []
    box = watched.page.inner_text("section[aria-labelledby=box]")
    assert "2015-01-01" in box
    assert "and 10 more" in box
    for shape in ("ball0", "zone0"):
        _, _, across, down = where(watched.page, shape)
        assert across == pytest.approx(down, abs=0.2)
    assert watched.said == []
    watched.close()


def test_on_paper_no_picture_fills_a_page_and_there_are_no_buttons(opened):
    opened.page.emulate_media(media="print")
    opened.page.set_viewport_size({"width": 794, "height": 1123})  # A4 at 96 pixels an inch
    heights = opened.page.eval_on_selector_all(
        "img, svg.animation", "found => found.map(x => x.getBoundingClientRect().height)"
    )
    assert 100 < max(heights) < 1123 / 2
    assert opened.page.locator("#controls").is_hidden()


def test_who_asked_for_little_motion_sees_no_gliding(browser, page_file):
    watched = Watched(browser, page_file, reduced_motion="reduce")
    watched.page.fill("#position", "0")
    watched.page.click("#next")
    first = where(watched.page, "centroid0")
    watched.page.wait_for_timeout(300)
    assert where(watched.page, "centroid0") == first
    watched.close()


def test_without_scripts_the_way_is_still_drawn(browser, page_file):
    watched = Watched(browser, page_file, java_script_enabled=False)
    assert watched.page.locator("#controls").is_hidden()
    assert watched.page.locator("polyline.trail").count() == 3
    watched.close()


def test_the_papers_own_transcript_moves_too(browser, records, tmp_path):
    method = posterior(publish_centroids=True)
    release = DPKMeans(3, bounds=(0, 100), method=method, guarantee="paper").fit(records).release_
    write_report(release, tmp_path / "report.html")
    watched = Watched(browser, tmp_path / "report.html")
    watched.page.fill("#position", "0")
    assert watched.page.locator("#zone0").get_attribute("visibility") == "visible"
    assert watched.page.locator(".ball").count() == 0
    assert watched.said == []
    watched.close()


# Text nodes whose contrast against the nearest background is below 4.5 to 1 (WCAG AA).
CONTRASTS = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!own || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(node.tagName + ": " + node.textContent.slice(0, 40));
  }
  return bad;
}"""
