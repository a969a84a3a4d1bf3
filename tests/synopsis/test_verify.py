from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from dpkmeans import DPKMeans
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import Release
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import FileError
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage import json_files as files
from dpkmeans.storage.codec import CORRECTION, decode_certificate, encode_certificate
from dpkmeans.storage.models import KIND, VERSION
from dpkmeans.synopsis.kmeans import means
from dpkmeans.synopsis.recentre import LABEL
from dpkmeans.synopsis.verify import verify
from dpkmeans.synopsis.weighted_points import WeightedPoints
from dpkmeans.verification import check_release

METHODS = ["synopsis", "synopsis-posterior", "synopsis-prior", "eugkm", "su-hybrid", "lei"]


def a_release(name: str = "synopsis", n: int = 4000, d: int = 2, k: int = 4, seed: int = 0) -> Release:
    rng = np.random.default_rng(seed)
    X = rng.random((k, d))[rng.integers(k, size=n)] + 0.05 * rng.standard_normal((n, d))
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), d), n_threads=1)
    return make_method(name).run(engine, k, ledger=Ledger(1.0), rng=Randomness.with_seed(seed))


def a_corrected_release() -> Release:
    """Six clusters in three features, with a signal that is not strong enough to miss none of them."""
    return a_release(d=3, k=6)


def wrong(release: Release) -> list[str]:
    return [verdict.statement for verdict in verify(release) if not verdict.holds]


@pytest.mark.parametrize("name", METHODS)
def test_the_certificate_of_a_saved_release_verifies_on_load(name, tmp_path):
    release = a_release(name)
    release.save(tmp_path / "model.json")
    assert wrong(Release.load(tmp_path / "model.json")) == []
    assert release.converged is True


def test_a_release_without_a_certificate_fails():
    release = a_release("synopsis")
    content = release.to_dict() | {"certificate": None}
    assert wrong(Release.from_dict(content)) == ["the release carries a certificate"]


def test_a_changed_file_is_refused_whatever_byte_of_its_content_changes(tmp_path):
    path = tmp_path / "model.json"
    a_release().save(path)
    text, before = path.read_text(), Release.load(path).to_dict()
    digits = [i for i in range(text.index('"content"'), len(text)) if text[i].isdigit()]
    for place in np.random.default_rng(0).choice(digits, 60, replace=False):
        path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        try:
            same = Release.load(path).to_dict() == before  # a last digit that no float64 tells apart
        except FileError:
            continue
        assert same


def changes(content: dict) -> dict[str, dict]:
    """For every number of the certificate a content in which it is changed, with a checksum that would match."""
    certificate = content["certificate"]
    changed = {}
    for name, value in certificate.items():
        if value is None or value == [] or name == "version":
            continue
        other = copy.deepcopy(content)
        if isinstance(value, float):
            other["certificate"][name] = value + 0.1
        elif isinstance(value[0], list):
            other["certificate"][name][0][0] += 1e-3 if value[0][0] < 0.5 else -1e-3
        else:
            other["certificate"][name][0] *= 1.001
        changed[name] = other
    return changed


@pytest.mark.parametrize("name", ["eugkm", "synopsis-posterior"])
def test_a_certificate_fails_on_any_changed_field_even_where_the_checksum_is_made_to_match(name, tmp_path):
    content = json.loads(json.dumps(a_release(name, n=150).to_dict()))  # so few records are not re-centred
    assert content["certificate"]["move_bound"] is None
    changed = changes(content)
    assert {"points", "weights", "start", "fixed_point", "sizes", "lloyd_costs", "apart"} <= set(changed)
    assert name == "eugkm" or {"zone_costs", "lloyd_start"} <= set(changed)
    for field, other in changed.items():
        files.write_json(tmp_path / "m.json", KIND, VERSION, other)
        assert wrong(Release.load(tmp_path / "m.json")), field
    for field, value in (("n_iter", 1), ("converged", False), ("sizes", [1.0] * 4)):
        assert wrong(Release.from_dict(content | {field: value})), field
    moved = np.array(content["centroids"])
    moved[0, 0] += 1e-4 if moved[0, 0] < 0.5 else -1e-4
    assert wrong(Release.from_dict(content | {"centroids": moved.tolist()}))
    fewer = copy.deepcopy(content)
    fewer["certificate"]["points"].pop()
    fewer["certificate"]["weights"].pop()
    assert wrong(Release.from_dict(fewer))


@pytest.mark.parametrize(
    ("corrects", "place", "bound", "statement"),
    [
        (False, "moved_to", "move_bound", "no centroid moved farther than its bound"),
        (True, "found", "found_bound", "no mean of the correction is farther away than its bound"),
    ],
)
def test_what_a_step_on_the_records_moved_farther_than_its_bound_fails(corrects, place, bound, statement):
    content = (a_corrected_release() if corrects else a_release()).to_dict()
    certificate = content["certificate"]
    moved, most = np.array(certificate[place]), np.array(certificate[bound])
    moved[0, 0] += (most[0, 0] * 2 + 1e-3) * (1 if moved[0, 0] < 0.5 else -1)
    far = content | {"certificate": certificate | {place: moved.tolist()}}
    assert statement in wrong(Release.from_dict(far))


@pytest.mark.parametrize("name", ["synopsis", "synopsis-prior", "su-hybrid"])
def test_a_release_that_is_not_where_the_synopsis_leads_fails(name):
    content = a_release(name).to_dict()
    certificate = content["certificate"]
    assert (certificate["follow"] > 0) == (name != "su-hybrid")  # the published method has no such step
    elsewhere = np.array(content["centroids"])
    elsewhere[0, 0] += 1e-4 if elsewhere[0, 0] < 0.5 else -1e-4
    moved = np.array(certificate["moved_to"])
    moved[0, 0] += 1e-4 if moved[0, 0] < 0.5 else -1e-4
    statement = ["the release is where the synopsis leads from there"]
    assert wrong(Release.from_dict(content | {"centroids": elsewhere.tolist()})) == statement
    assert wrong(Release.from_dict(content | {"certificate": certificate | {"moved_to": moved.tolist()}})) == statement


@pytest.mark.parametrize("name", ["synopsis", "synopsis-posterior", "synopsis-prior"])
def test_after_a_correction_the_release_is_a_fixed_point_of_the_synopsis_that_it_holds(name):
    release = a_release(name, d=3, k=6)
    certificate = release.certificate
    assert certificate.step is None
    assert len(certificate.correction.means) == 9
    assert wrong(release) == []
    points = WeightedPoints(certificate.points, certificate.weights)
    at = release.bounds.unit_of(release.centroids)
    assert np.abs(means(points, at) - at).max() < 1e-9
    content = release.to_dict()
    elsewhere = np.array(content["centroids"])
    elsewhere[0, 0] += 1e-4 if elsewhere[0, 0] < 0.5 else -1e-4
    statement = ["the release is where the synopsis leads from there"]
    assert wrong(Release.from_dict(content | {"centroids": elsewhere.tolist()})) == statement


def test_a_certificate_without_a_correction_is_as_the_version_before_wrote_it_and_so_is_its_digest(tmp_path):
    X = np.random.default_rng(0).random((600, 2))
    release = DPKMeans(3, epsilon=1.0, bounds=(0, 1), random_state=1, guarantee="none").fit(X).release_
    content = release.to_dict()
    assert content["certificate"]["version"] == 1
    assert not set(CORRECTION) & set(content["certificate"])
    release.save(tmp_path / "first.json")
    loaded = Release.load(tmp_path / "first.json")
    assert check_release(loaded).hold
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "first.json").read_bytes()
    assert check_release(Release.from_dict(content)).hold


def test_a_step_that_nobody_paid_for_fails():
    for release in (a_release(), a_corrected_release()):
        spends = tuple(spend for spend in release.spends if spend.label != LABEL)
        assert len(spends) == len(release.spends) - 1
        assert "a step on the records is among its spends" in wrong(replace(release, spends=spends))


def test_equal_centroids_fail():
    content = a_release("eugkm", n=150).to_dict()
    content["centroids"][0] = content["centroids"][1]
    assert "all centroids differ" in wrong(Release.from_dict(content))


@pytest.mark.parametrize(
    ("corrects", "damage"),
    [
        (False, {"start": [[0.5]]}),
        (False, {"start": [[0.5, "a"]]}),
        (False, {"fixed_point": []}),
        (False, {"fixed_point": [[0.1] * 3] * 4}),
        (False, {"points": [[0.5, 0.5]]}),
        (False, {"points": [[7.0, 0.5]], "weights": [1.0]}),
        (False, {"weights": [-1.0]}),
        (False, {"lloyd_costs": []}),
        (False, {"lloyd_costs": [1.0] * 30_000}),
        (False, {"zone_costs": 3}),
        (False, {"move_bound": [[-1.0, 0.0]] * 4}),
        (False, {"moved_to": None}),
        (False, {"moved_to": [[0.5]]}),
        (False, {"follow": -1.0}),
        (False, {"follow": 1.5}),
        (False, {"follow": None}),
        (False, {"apart": "far"}),
        (False, {"sizes": None}),
        (False, {"move_bound": [[1e9, 0.0]] * 4}),
        (True, {"asked": None}),
        (True, {"asked": None, "found": None, "found_bound": None}),
        (True, {"asked": [[5.0] * 3] * 9, "found": [[5.0] * 3] * 9}),
        (True, {"found_bound": [[1e9] * 3] * 9}),
        (True, {"moved_to": [[0.5] * 3] * 6, "move_bound": [[1.0] * 3] * 6, "follow": 0.0}),
        (True, {"asked": [[0.5]]}),
        (True, {"found": [], "asked": [], "found_bound": []}),
        (True, {"found": [[0.5, 0.5]]}),
        (True, {"found_bound": [[-1.0, 0.0, 0.0]] * 9}),
    ],
    ids=str,
)
def test_a_damaged_certificate_is_a_clear_error_and_never_reaches_a_compiled_loop(corrects, damage):
    content = (a_corrected_release() if corrects else a_release()).to_dict()
    try:
        verdicts = wrong(Release.from_dict(content | {"certificate": content["certificate"] | damage}))
    except FileError as error:
        verdicts = [str(error)]
    assert verdicts
    gone = {key: value for key, value in content["certificate"].items() if key not in damage}
    with pytest.raises(FileError, match="damaged"):
        Release.from_dict(content | {"certificate": gone})


@pytest.mark.parametrize("certificate", [{}, [], 3, "x", {"points": 3}, True], ids=str)
def test_what_is_no_certificate_is_refused_when_a_model_is_read(certificate):
    with pytest.raises(FileError, match="damaged"):
        Release.from_dict(a_release().to_dict() | {"certificate": certificate})


def test_a_certificate_has_a_version_and_a_newer_one_is_refused():
    assert a_corrected_release().to_dict()["certificate"]["version"] == 2
    content = a_release().to_dict()
    certificate = content["certificate"]
    before = {key: value for key, value in certificate.items() if key != "version"}  # as 0.1 wrote it
    assert wrong(Release.from_dict(content | {"certificate": before})) == []
    for version in (0, 3, "1", None):
        with pytest.raises(FileError, match="damaged"):
            Release.from_dict(content | {"certificate": certificate | {"version": version}})


@pytest.mark.parametrize("name", METHODS)
def test_a_certificate_is_the_same_after_a_file(name):
    release = a_release(name)
    back = decode_certificate(encode_certificate(release.certificate), release.bounds, release.n_clusters)
    assert encode_certificate(back) == encode_certificate(release.certificate)
    assert (back.step is None) == (release.certificate.step is None)
