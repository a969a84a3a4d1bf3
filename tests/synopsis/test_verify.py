from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import Release
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.errors import FileError
from dpkmeans.methods.registry import make_method
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.storage import json_files as files
from dpkmeans.storage.codec import decode_certificate, encode_certificate
from dpkmeans.storage.models import KIND, VERSION
from dpkmeans.synopsis.verify import verify

METHODS = ["synopsis", "synopsis-posterior", "synopsis-prior", "eugkm", "su-hybrid", "lei"]


def a_release(name: str = "synopsis", n: int = 4000, d: int = 2, k: int = 4, seed: int = 0) -> Release:
    rng = np.random.default_rng(seed)
    X = rng.random((k, d))[rng.integers(k, size=n)] + 0.05 * rng.standard_normal((n, d))
    engine = MemoryEngine.of_records(X, Bounds.of((0, 1), d), n_threads=1)
    return make_method(name).run(engine, k, ledger=Ledger(1.0), rng=Randomness.with_seed(seed))


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


def test_a_centroid_that_moved_farther_than_its_bound_fails():
    content = a_release().to_dict()
    certificate = content["certificate"]
    bound, moved = np.array(certificate["move_bound"]), np.array(certificate["moved_to"])
    moved[0, 0] += (bound[0, 0] * 2 + 1e-3) * (1 if moved[0, 0] < 0.5 else -1)
    far = content | {"certificate": certificate | {"moved_to": moved.tolist()}}
    assert "no centroid moved farther than its bound" in wrong(Release.from_dict(far))


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


def test_equal_centroids_fail():
    content = a_release("eugkm", n=150).to_dict()
    content["centroids"][0] = content["centroids"][1]
    assert "all centroids differ" in wrong(Release.from_dict(content))


@pytest.mark.parametrize(
    "damage",
    [
        {"start": [[0.5]]},
        {"start": [[0.5, "a"]]},
        {"fixed_point": []},
        {"fixed_point": [[0.1] * 3] * 4},
        {"points": [[0.5, 0.5]]},
        {"points": [[7.0, 0.5]], "weights": [1.0]},
        {"weights": [-1.0]},
        {"lloyd_costs": []},
        {"lloyd_costs": [1.0] * 30_000},
        {"zone_costs": 3},
        {"move_bound": [[-1.0, 0.0]] * 4},
        {"moved_to": None},
        {"moved_to": [[0.5]]},
        {"follow": -1.0},
        {"follow": 1.5},
        {"follow": None},
        {"apart": "far"},
        {"sizes": None},
    ],
    ids=str,
)
def test_a_damaged_certificate_is_a_clear_error_and_never_reaches_a_compiled_loop(damage):
    content = a_release().to_dict()
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
    content = a_release().to_dict()
    certificate = content["certificate"]
    assert certificate["version"] == 1
    before = {key: value for key, value in certificate.items() if key != "version"}  # as 0.1 wrote it
    assert wrong(Release.from_dict(content | {"certificate": before})) == []
    for version in (0, 2, "1", None):
        with pytest.raises(FileError, match="damaged"):
            Release.from_dict(content | {"certificate": certificate | {"version": version}})


@pytest.mark.parametrize("name", METHODS)
def test_a_certificate_is_the_same_after_a_file(name):
    release = a_release(name)
    back = decode_certificate(encode_certificate(release.certificate), release.bounds, release.n_clusters)
    assert encode_certificate(back) == encode_certificate(release.certificate)
    assert (back.step is None) == (release.certificate.step is None)
