"""The report: complete, self-contained, and built from a release alone."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from dpkmeans import Boolean, Category, Date, DPKMeans, Number, Schema, Time
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.guarantee import Guarantee
from dpkmeans.core.readable import centroid_rows
from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.core.rounding import number
from dpkmeans.core.schema import scaled
from dpkmeans.errors import FileError
from dpkmeans.report import render_report, write_report
from dpkmeans.report.animation import WIDTH, smoothed
from dpkmeans.report.derived import costs_of
from dpkmeans.report.trajectory import frames_of
from dpkmeans.synopsis.verify import verify


def a_release(n_features: int = 2, label: str = "proved") -> Release:
    rng = np.random.default_rng(3)
    return Release(
        centroids=rng.random((3, n_features)),
        method="su",
        guarantee=Guarantee(label),
        bounds=Bounds((0.0,) * n_features, (1.0,) * n_features),
        epsilon_promised=1.0,
        spends=(Spend("counts", (Epsilon.of(0.25),)), Spend("sums", (Epsilon.of(0.5),) * 3)),
        n_passes=4,
        n_iter=4,
        feature_names=tuple(f"name{j}" for j in range(n_features)),
        sizes=(10.0, 21.5, -2.0),
        parameters={"steps": 4},
    )


def with_transcript(release: Release) -> Release:
    zones = [
        PublishedZone(t, i, (0.5,) * release.bounds.n_features, 0.1 / t, "score", 0.1)
        for t in range(1, 5)
        for i in range(3)
    ]
    return replace(release, transcript=tuple(zones), converged=True)


def test_the_guarantee_comes_before_the_centroids():
    release = a_release()
    page = render_report(release)
    assert page.index(release.summary()) < page.index('<h2 id="centroids">')
    for value in release.centroids.ravel():
        assert number(float(value)) in page
    for text in ("name0", "name1", ">22<", "counts", "0.25", "0.75", "3 disjoint cells"):
        assert text in page


@pytest.mark.parametrize("label", ["proved", "paper", "none"])
def test_every_label_says_what_it_gives_and_what_not(label):
    page = render_report(a_release(label=label))
    assert "What it does not mean" in page
    assert f'class="guarantee {label}"' in page
    assert ("Do not publish" in page or "do not publish" in page) == (label != "proved")


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_page_loads_nothing_and_runs_only_its_own_script():
    page = render_report(with_transcript(a_release()))
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.S)
    [script] = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert policy == (
        f"default-src 'none'; style-src '{hash_of(style)}'; script-src '{hash_of(script)}'; img-src data:"
    )
    assert "http:" not in page
    assert "https:" not in page
    assert " style=" not in page
    assert "prefers-color-scheme: dark" in page
    assert len(page.encode()) < 400_000
    sources = re.findall(r'(?:src|srcset|href)="([^"]{0,30})', page)
    assert sources
    assert all(source.startswith(("data:image/svg+xml;base64,", "#")) for source in sources)


def test_names_from_a_stranger_are_only_text():
    names = ("<script>alert(1)</script>", "$x_1$ {{ 7 * 7 }}")
    page = render_report(replace(a_release(), feature_names=names))
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    pictures = [base64.b64decode(text).decode() for text in re.findall(r"base64,([^\"]+)", page)]
    assert all("<script" not in picture and "$x_1$" in picture for picture in pictures)


@pytest.mark.parametrize("n_features", [1, 2, 3, 40])
def test_any_number_of_features_can_be_shown(n_features):
    page = render_report(a_release(n_features))
    assert f"name{n_features - 1}" in page


def test_a_release_without_spends_names_sizes_or_epsilon_can_be_shown():
    release = replace(a_release(label="none"), spends=(), feature_names=None, sizes=None, epsilon_promised=None)
    page = render_report(release)
    assert "Nothing was spent" in page
    assert "feature 1" in page
    assert "noisy size" not in page


def test_the_transcript_adds_a_summary_and_a_picture():
    plain, told = render_report(a_release()), render_report(with_transcript(a_release()))
    assert told.count("<figure>") == plain.count("<figure>") + 1
    assert 'id="frames"' in told
    assert "<script" not in plain
    assert "12 lines over 4 iterations" in told


def test_a_model_file_alone_gives_the_same_page(tmp_path):
    release = with_transcript(a_release())
    release.save(tmp_path / "model.json")
    write_report(Release.load(tmp_path / "model.json"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == render_report(release)


def test_without_jinja2_the_error_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(FileError, match=r"pip install 'dpkmeans\[all\]'"):
        write_report(a_release(), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def fitted() -> DPKMeans:
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(c, 0.05, (1500, 3)) for c in ((0.2, 0.3, 0.8), (0.7, 0.6, 0.2))])
    X[17] = PLANTED
    return DPKMeans(2, epsilon=1.0, bounds=(0, 1), method="synopsis-prior", random_state=1, guarantee="none").fit(X)


PLANTED = (0.3141592, 0.2718281, 0.5772156)


def test_the_estimator_and_the_release_give_their_report(fitted, tmp_path):
    page = fitted.report()
    assert fitted.report(tmp_path / "a.html") == page == (tmp_path / "a.html").read_text()
    assert fitted.release_.report() == page
    with pytest.raises(NotFittedError):
        DPKMeans(2).report()


def test_no_report_shows_a_planted_record(fitted):
    page = fitted.report()
    pictures = "".join(base64.b64decode(text).decode() for text in re.findall(r"svg\+xml;base64,([^\"]+)", page))
    shown = page + pictures + fitted.release_._repr_html_()
    for value in PLANTED:
        for digits in (4, 5, 6):
            assert not re.search(rf"(?<!\d){value:.{digits}f}(?!\d)", shown)


def test_the_certificate_gives_costs_verdicts_and_other_numbers_of_clusters(fitted):
    page = fitted.report()
    assert page.count("✓ holds") == len(verify(fitted.release_))
    assert "✗" not in page
    for title in ("Certificate of convergence", "Other numbers of clusters", "Trajectory of the centroids"):
        assert title in page
    zones, lloyd = costs_of(fitted.release_)
    assert f"over {len(zones) + len(lloyd)} passes, from {number(zones[0])} to {number(lloyd[-1])}" in page


def test_a_certificate_that_was_changed_is_shown_as_one_that_does_not_hold(fitted):
    changed = replace(fitted.release_.certificate, lloyd_costs=(9.0, 9.0, 9.0))
    assert "✗ does not hold" in render_report(replace(fitted.release_, certificate=changed))


def test_the_frames_start_at_the_start_and_end_at_the_release(fitted):
    frames = frames_of(fitted.release_)
    assert frames[0].words == "Start"
    assert frames[-1].centroids is fitted.release_.centroids
    zoned = [frame for frame in frames if frame.zones is not None]
    assert len(zoned) == max(zone.iteration for zone in fitted.release_.transcript)
    for frame in zoned:
        away = np.linalg.norm(frame.zones.center - frame.centroids, axis=1)
        assert (away <= frame.zones.radii[:, 0] + 1e-9).all()
        apart = np.linalg.norm(frame.zones.center - frame.convergent.center, axis=1)
        assert (apart + frame.zones.radii[:, 0] <= frame.convergent.radii[:, 0] + 1e-9).all()


def test_hundreds_of_spends_are_shown_by_kind():
    spends = tuple(Spend(f"step {t}: {what}", (Epsilon.of(0.001),)) for t in range(200) for what in ("counts", "sums"))
    page = render_report(replace(a_release(), spends=spends))
    assert "step …: counts" in page
    assert "step 17: counts" not in page
    assert "400 entries, 0.4 in all" in page


def test_the_largest_releases_still_give_a_small_page():
    k, d = 2000, 300
    rng = np.random.default_rng(0)
    zones = tuple(PublishedZone(t, i, (0.5,) * d, 0.1, "s", 0.1) for t in range(1, 3) for i in range(k))
    release = replace(
        a_release(d),
        centroids=rng.random((k, d)),
        sizes=tuple(map(float, range(k))),
        feature_names=tuple("a long name " * 20 + str(j) for j in range(d)),
        transcript=zones,
    )
    page = render_report(release)
    assert len(page.encode()) < 400_000
    assert "the first 50 of 2000 clusters and the first 60 of 300 features" in page


def test_a_long_way_of_many_clusters_still_gives_a_small_page():
    k = 100
    rng = np.random.default_rng(0)
    zones = tuple(
        PublishedZone(t, i, tuple(rng.random(2)), 0.1, "s", 0.1, tuple(rng.random(2)))
        for t in range(1, 200)
        for i in range(k)
    )
    release = replace(a_release(), centroids=rng.random((k, 2)), sizes=None, transcript=zones)
    assert len(render_report(release).encode()) < 400_000


class _Structure(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_structure_serves_a_screen_reader(fitted):
    structure = _Structure()
    structure.feed(fitted.report())
    tags = structure.tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    named_by = ("aria-labelledby", "aria-describedby")
    for tag, attributes in tags:
        assert all(attributes[name] in ids for name in named_by if name in attributes)
        if tag == "img":
            assert len(attributes["alt"]) > 20
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
        if tag == "a":
            assert str(attributes["href"])[1:] in ids
        if attributes.get("class") == "scroll":
            assert attributes["tabindex"] == "0"
            assert attributes["aria-label"]
        if tag == "svg":
            assert "aria-hidden" in attributes or attributes["role"] == "img"
        if tag == "input":
            assert attributes["aria-label"]
    headings = [int(tag[1]) for tag, _ in tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(headings))
    html = dict(tags)["html"]
    assert html["lang"] == "en"


def test_a_notebook_shows_the_guarantee_and_the_centroids(fitted):
    shown = fitted.release_._repr_html_()
    assert fitted.release_.summary() in shown
    assert next(centroid_rows(fitted.release_, None, fitted.release_.intervals()))[2] in shown
    assert shown.count(" ± ") == 4 * fitted.release_.n_clusters
    strange = replace(fitted.release_, feature_names=("<b>", "a&b", "c"))._repr_html_()
    assert "<b>" not in strange
    assert "a&amp;b" in strange
    many = replace(fitted.release_, centroids=np.zeros((50, 3)), sizes=None)._repr_html_()
    assert "A part of 50 centroids" in many


SCHEMA = Schema.of(
    {
        "age": Number(0, 120),
        "region": Category("N", "S", "<b>E</b>"),
        "admitted": Date("2015-01-01", "2025-12-31"),
        "open": Time("08:00", "18:00"),
        "smoker": Boolean(),
    }
)


def with_schema(sizes: tuple[float, ...] | None = (10.0, 21.5)) -> Release:
    day = (date(2020, 2, 29) - date(1970, 1, 1)).days
    centroids = [[40.5, 0.7, 0.2, 0.1, day + 0.4, 9.5, 0.25], [61, 0.1, 0.1, 0.8, day + 365, 12, 1.0]]
    return replace(
        a_release(),
        centroids=np.array(centroids),
        bounds=scaled(SCHEMA.bounds(), "box", SCHEMA, None),
        feature_names=SCHEMA.coordinates,
        schema=SCHEMA,
        sizes=sizes,
    )


def cells(page: str) -> list[str]:
    return re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", page)


@pytest.mark.parametrize("show", [render_report, Release._repr_html_])
def test_a_table_with_a_schema_shows_what_people_read(show):
    page = show(with_schema())
    found = cells(page)
    rows = [found[found.index(str(i)) :][:7] for i in (0, 1)]
    assert rows[0] == ["0", "40.5", "N 70 %, S 20 %, &lt;b&gt;E&lt;/b&gt; 10 %", "2020-02-29", "09:30", "25 %", "10"]
    assert rows[1] == ["1", "61", "&lt;b&gt;E&lt;/b&gt; 80 %, N 10 %, S 10 %", "2021-02-28", "12:00", "100 %", "22"]
    assert "<b>E</b>" not in page


def test_the_box_shows_dates_and_levels():
    found = cells(render_report(with_schema()))
    assert found[found.index("column") :] == [
        *("column", "lower", "upper", "scaled width", "age", "0", "120", "1"),
        *("region", "N, S, &lt;b&gt;E&lt;/b&gt;", "1", "admitted", "2015-01-01", "2025-12-31", "1"),
        *("open", "08:00", "18:00", "1", "smoker", "false", "true", "1"),
    ]
    assert "scaled width" not in render_report(a_release())


def test_axes_show_dates_as_dates():
    schema = Schema.of({"age": Number(0, 120), "admitted": Date("2015-01-01", "2025-12-31")})
    days = schema.bounds().lower[1]
    release = replace(
        a_release(),
        centroids=np.array([[40.0, days + 100], [50.0, days + 3000], [60.0, days + 200]]),
        bounds=scaled(schema.bounds(), "box", schema, None),
        feature_names=schema.coordinates,
        schema=schema,
    )
    pages = [render_report(release), render_report(replace(release, schema=None))]
    drawn = [base64.b64decode(re.findall(r"base64,([^\"]+)", page)[0]).decode() for page in pages]
    years = [re.findall(r">(20[12]\d)<", picture) for picture in drawn]
    assert years == [["2016", "2020", "2024"], []]


def test_costs_of_scaled_features_are_not_said_to_be_in_units_of_the_data(fitted):
    page = fitted.report()
    assert "in squared units of the data" in page
    rng = np.random.default_rng(1)
    X = {"age": rng.uniform(0, 100, 2000), "income": rng.uniform(0, 1e5, 2000)}
    bounds = {"age": (0, 100), "income": (0, 1e5)}
    scaled_page = DPKMeans(2, epsilon=1.0, bounds=bounds, scale="box").fit(pd.DataFrame(X)).report()
    assert "in squared units, after scaling" in scaled_page
    assert "squared units of the data" not in scaled_page
    assert 'viewBox="0 0 640.0 640.0"' in scaled_page  # a square: both features have the same say


def test_long_levels_and_many_of_them_still_give_a_small_page():
    schema = Schema.of(
        {f"column {c} {'x' * 200}": Category(*(f"{i} {'y' * 500}" for i in range(20))) for c in range(40)}
    )
    release = replace(
        a_release(),
        centroids=np.full((1000, 800), 0.05),
        bounds=schema.bounds(),
        feature_names=schema.coordinates,
        schema=schema,
        sizes=None,
    )
    page = render_report(release)
    assert len(page.encode()) < 1_000_000
    assert "the first 75 of 1000 clusters" in page
    assert "y" * 100 not in page


@pytest.mark.parametrize("pitch", [3.0, 7.3, 19.0])
def test_an_even_grid_of_points_has_an_even_density_whatever_its_pitch(pitch):
    middles = np.arange(pitch / 2, WIDTH, pitch)
    places = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    density = smoothed(places, np.ones(len(places)), WIDTH, (160, 160))[20:-20, 20:-20]
    assert np.ptp(density) < 0.01 * density.mean()
    bins = np.histogram(places[:, 0], bins=160, range=(0, WIDTH))[0]  # counting alone shows stripes
    assert np.ptp(bins) > 0.3 * bins.mean()


def test_a_point_of_twice_the_weight_is_twice_as_dense():
    places = np.array([[100.0, 100.0], [500.0, 500.0]])
    density = smoothed(places, np.array([1.0, 2.0]), WIDTH, (64, 64))
    assert density[50, 50] == pytest.approx(2 * density[10, 10], rel=1e-6)


def test_lists_and_matrices_among_the_parameters_stay_in_the_model_file():
    parameters = {"steps": 14704, "rule": "even", "centroid_deviation": [[0.123456, 1.0]], "groups": {"a": 0.654321}}
    page = render_report(replace(a_release(), parameters=parameters))
    assert "14,704" in page
    assert "even" in page
    for absent in ("centroid_deviation", "0.123456", "0.654321"):
        assert absent not in page


def test_the_page_begins_with_the_questions_that_decide():
    page = render_report(a_release())
    asked = ("What is released", "About whom", "At which privacy loss", "Recorded where", "Signed by whom")
    places = [page.index(question) for question in (*asked, "Verified how")]
    assert places == sorted(places)
    assert places[-1] < page.index('<h2 id="centroids">')
    assert "zone" not in page[page.index("<main>") :]
