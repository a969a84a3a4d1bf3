"""The report: complete, self-contained, and built from a release alone."""

from __future__ import annotations

import base64
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from dpkmeans.bounds import Bounds
from dpkmeans.errors import FileError
from dpkmeans.guarantee import Guarantee
from dpkmeans.privacy.epsilon import Epsilon
from dpkmeans.privacy.ledger import Spend
from dpkmeans.release import PublishedZone, Release
from dpkmeans.report import render_report, write_report


def a_release(n_features: int = 2, label: str = "proved") -> Release:
    rng = np.random.default_rng(3)
    return Release(
        centroids=rng.random((3, n_features)),
        method="su",
        guarantee=Guarantee(label),  # type: ignore[arg-type]
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
        assert f"{value:.6g}" in page
    for text in ("name0", "name1", "21.5", "counts", "0.25", "0.75", "3 disjoint cells"):
        assert text in page


@pytest.mark.parametrize("label", ["proved", "paper", "none"])
def test_every_label_says_what_it_gives_and_what_not(label):
    page = render_report(a_release(label=label))
    assert "What it does not give" in page
    assert f"var(--{label})" in page
    assert ("Do not publish" in page or "do not publish" in page) == (label != "proved")


def test_the_page_loads_nothing_and_runs_nothing():
    page = render_report(with_transcript(a_release()))
    assert (
        "default-src &#39;none&#39;" in page or "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    )
    assert "http:" not in page
    assert "https:" not in page
    assert "<script" not in page
    assert "prefers-color-scheme: dark" in page
    assert len(page) < 400_000
    sources = re.findall(r'(?:src|srcset|href)="([^"]{0,30})', page)
    assert sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)


def test_names_from_a_stranger_are_only_text():
    names = ("<script>alert(1)</script>", "$x_1$ {{ 7 * 7 }}")
    page = render_report(replace(a_release(), feature_names=names))
    assert "<script" not in page
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
    assert "12 lines over 4 iterations" in told


def test_a_model_file_alone_gives_the_same_page(tmp_path):
    release = with_transcript(a_release())
    release.save(tmp_path / "model.json")
    write_report(Release.load(tmp_path / "model.json"), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == render_report(release)


def test_without_jinja2_the_error_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(FileError, match=r"pip install 'dpkmeans\[report\]'"):
        write_report(a_release(), tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
