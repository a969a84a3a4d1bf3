"""The page to explore a synopsis: what it holds, and what it does in a real browser, offline."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from tests.report.browser import Watched, chromium, violations

from dpkmeans import DPKMeans, Guarantee, make_synopsis
from dpkmeans.cli.main import main
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.errors import MethodError
from dpkmeans.report import explorer
from dpkmeans.report.explorer import render_explorer, synopsis_in, write_explorer
from dpkmeans.synopsis.synopsis import Synopsis
from dpkmeans.synopsis.weighted_points import WeightedPoints

SCREENS = [("light", 1200), ("dark", 1200), ("light", 360), ("dark", 360)]


def a_synopsis(m=240, d=3, names=("age", "income & <b>", "visits")):
    rng = np.random.default_rng(7)
    places = np.clip(rng.random((6, d))[rng.integers(6, size=m)] + 0.06 * rng.standard_normal((m, d)), 0, 1)
    spends = (Spend("grid: counts", (Epsilon.of(1.0),)),)
    bounds, data = Bounds.of((0, 50), d), WeightedPoints(places, rng.uniform(1, 40, m))
    return Synopsis(data, bounds, Guarantee("proved"), spends, 1.0, "grid", feature_names=names)


@pytest.fixture(scope="module")
def synopsis():
    return a_synopsis()


@pytest.fixture(scope="module")
def page_file(synopsis, tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "explore.html"
    write_explorer(synopsis, path)
    return path


def test_the_page_refers_to_nothing_outside_itself_and_is_small(page_file):
    page = page_file.read_text()
    assert len(page) < 10**6
    assert "default-src 'none'" in page
    assert re.findall(r"""(?:src|href)\s*=\s*["'][^#"']""", page) == []
    assert "income &amp; &lt;b&gt;" in page


def test_the_command_writes_the_page_and_prints_its_numbers(synopsis, tmp_path, capsys):
    synopsis.save(tmp_path / "synopsis.json")
    out = tmp_path / "explore.html"
    assert main(["explore", str(tmp_path / "synopsis.json"), "--k", "3,4", "--page", str(out)]) == 0
    shown = capsys.readouterr()
    assert "The page is in" in shown.err
    assert out.read_text() == render_explorer(synopsis)
    assert "explore synopsis.json --k 5" in out.read_text()
    assert [line.split()[0] for line in shown.out.splitlines() if line[1:2].isdigit()] == ["3", "4"]


def test_a_release_holds_its_synopsis_and_one_without_is_refused():
    X = np.random.default_rng(0).random((600, 2))
    fitted = DPKMeans(2, epsilon=1.0, bounds=(0, 1)).fit(X).release_
    found = synopsis_in(fitted)
    assert found.epsilon_spent == 1.0
    assert np.array_equal(found.data.points, fitted.certificate.points)
    with pytest.raises(MethodError, match="holds no synopsis"):
        synopsis_in(DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="su").fit(X).release_)


def test_a_synopsis_that_is_too_large_for_a_page_is_refused():
    with pytest.raises(MethodError, match="too much for one page"):
        render_explorer(a_synopsis(m=1000, d=200, names=None))


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def opened(browser, page_file):
    watched = Watched(browser, page_file, viewport={"width": 1200, "height": 900})
    yield watched
    assert watched.others() == []
    assert watched.said == []
    watched.close()


def number(page, selector):
    return float(page.inner_text(selector).replace(",", ""))


def test_the_page_holds_points_and_starts_and_no_number_for_its_script_to_repeat(page_file):
    held = json.loads(re.search(r'id="data">(.*?)</script>', page_file.read_text(), re.DOTALL).group(1))
    released = {"points", "weights", "starts", "double"}
    public = {"names", "lower", "unit", "box", "longest", "zone_epsilon", "shown", "first"}
    assert set(held) == released | public
    assert len(held["starts"]) == 19


def a_released_synopsis():
    """One of a fit: a grid, whose points may lie as far from one centroid as from another."""
    rng = np.random.default_rng(3)
    X = np.clip(rng.random((6, 2))[rng.integers(6, size=3000)] + 0.05 * rng.standard_normal((3000, 2)), 0, 1)
    return make_synopsis(X, epsilon=1.0, bounds=(0, 1), guarantee="none", random_state=5)


@pytest.mark.browser
@pytest.mark.parametrize("made", [a_synopsis, a_released_synopsis])
def test_by_keyboard_every_k_has_the_numbers_of_explore_computed_in_the_page(browser, made, tmp_path):
    synopsis = made()
    write_explorer(synopsis, tmp_path / "explore.html")
    opened = Watched(browser, tmp_path / "explore.html", viewport={"width": 1200, "height": 900})
    page = opened.page
    page.focus("#k")
    page.keyboard.press("Home")
    for row in synopsis.explore(range(2, 21), random_state=0):
        assert page.inner_text("#chosen") == f"{row.k} clusters"
        assert number(page, "#cost") == float(f"{row.cost:.6g}")
        assert number(page, "#silhouette") == float(f"{row.silhouette:.6g}")
        assert page.locator("#clusters tr").count() == row.k
        assert "At rest" in page.inner_text("#now")
        cost = float(re.search(r"cost ([\d.,]+\d)", page.inner_text("#now")).group(1).replace(",", ""))
        assert cost == pytest.approx(row.cost, rel=1e-3)  # of the step that is shown, with four digits
        assert number(page, "#smallest") == pytest.approx(row.sizes[-1], abs=0.51)
        page.keyboard.press("ArrowRight")
    for chart in ("#costs", "#silhouettes"):
        page.wait_for_function(f"document.querySelector('{chart} polyline').points.numberOfItems === 19")
    assert opened.others() == opened.said == []
    opened.close()


@pytest.mark.browser
def test_a_page_of_a_large_synopsis_shows_fewer_digits_and_says_where_it_begins(browser, tmp_path, monkeypatch):
    synopsis = a_synopsis()
    monkeypatch.setattr(explorer, "MAX_DOUBLES", 0)
    monkeypatch.setattr(explorer, "MAX_NUMBERS", synopsis.data.points.size + len(synopsis.data.weights))
    write_explorer(synopsis, tmp_path / "explore.html", 6)
    opened = Watched(browser, tmp_path / "explore.html", viewport={"width": 1200, "height": 900})
    (row,) = [row for row in synopsis.explore(range(2, 21), random_state=0) if row.k == 6]
    assert number(opened.page, "#cost") >= row.cost * (1 - 1e-3)
    assert number(opened.page, "#cost") == float(f"{number(opened.page, '#cost'):.4g}")
    assert "Its numbers can be worse than those of the table below" in opened.page.inner_text("main")
    assert opened.others() == opened.said == []
    opened.close()


@pytest.mark.browser
@pytest.mark.parametrize("strategy", ["posterior", "prior"])
def test_the_strategies_of_the_paper_go_step_by_step_and_come_to_rest(opened, strategy):
    page = opened.page
    page.select_option("#strategy", strategy)
    assert "At rest" in page.inner_text("#now")
    page.focus("#first")
    page.keyboard.press("Enter")
    costs, words = [], page.inner_text("#now")
    assert words.startswith("The start")
    while "At rest" not in words:
        costs.append(float(re.search(r"cost ([\d.,]+\d)", words).group(1).replace(",", "")))
        page.click("#next")
        words = page.inner_text("#now")
        assert len(costs) < 600
    assert costs == sorted(costs, reverse=True)  # inside the convergent zones the cost falls


@pytest.mark.browser
def test_other_features_can_be_chosen_and_the_steps_play(opened):
    page = opened.page
    before = page.evaluate("document.getElementById('map').toDataURL()")
    page.select_option("#y", "2" if page.input_value("#y") != "2" else "0")
    assert page.evaluate("document.getElementById('map').toDataURL()") != before
    page.click("#play")
    page.wait_for_timeout(900)
    assert page.inner_text("#now").startswith(("Step", "The start"))
    page.wait_for_function("document.getElementById('play').textContent === 'Play'")
    assert "At rest" in page.inner_text("#now")


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), SCREENS)
def test_it_fits_the_screen_and_axe_finds_nothing(browser, page_file, scheme, width):
    watched = Watched(browser, page_file, viewport={"width": width, "height": 740}, color_scheme=scheme)
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(watched.page) == []
    watched.close()


def test_a_report_links_to_the_page_that_it_is_written_with(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(explorer, "KS", range(2, 4))  # fewer, to be quick
    X = np.random.default_rng(0).random((300, 2))
    DPKMeans(2, epsilon=0.5, bounds=(0, 1), n_records=300).fit(X).release_.save(tmp_path / "model.json")
    (tmp_path / "pages").mkdir()
    out, page = tmp_path / "report.html", tmp_path / "pages" / "a b.html"
    assert main(["report", str(tmp_path / "model.json"), "--out", str(out), "--page", str(page)]) == 0
    assert '<a href="pages/a%20b.html">' in out.read_text()
    assert "2 clusters" in page.read_text()
    assert "synopsis.json" not in page.read_text(), "there is no such file"
    capsys.readouterr()
    assert main(["report", str(tmp_path / "model.json"), "--out", str(out)]) == 0
    assert "--page explore.html" in out.read_text()
