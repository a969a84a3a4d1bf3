from __future__ import annotations

import gc
import json
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from dpkmeans import DPKMeans
from dpkmeans.cli.output import print_release
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.release import Release
from dpkmeans.errors import FileError
from dpkmeans.methods.lu_shen.strategies import posterior
from dpkmeans.storage.json_files import write_json
from dpkmeans.storage.models import KIND, VERSION

N = 997  # no other length in a release is near it


def fitted(method, **options):
    X = np.random.default_rng(0).random((N, 2))
    accepted = {"lloyd": "none", "posterior": "paper", "prior": "paper"}.get(method, "proved")
    return DPKMeans(3, bounds=(0, 1), method=method, guarantee=accepted, **options).fit(X)


@pytest.fixture(scope="module")
def releases():
    X = np.random.default_rng(1).random((N, 2))
    method = posterior(publish_centroids=True)
    with_centroids = DPKMeans(3, bounds=([-1, 0], [2, 1]), method=method, guarantee="paper").fit(X).release_
    return {
        "lloyd": fitted("lloyd").release_,
        "posterior": fitted("posterior").release_,
        "posterior with centroids": with_centroids,
        "prior": fitted("prior", step_epsilon=0.2).release_,
        "su": fitted("su", epsilon=1.0).release_,
        "seeded": DPKMeans(2, bounds="from data", method="lloyd", guarantee="none", random_state=0).fit(X).release_,
    }


NAMES = ["lloyd", "posterior", "posterior with centroids", "prior", "su", "seeded"]


@pytest.fixture(params=NAMES)
def release(request, releases):
    return releases[request.param]


def test_a_release_survives_a_file(release, tmp_path):
    release.save(tmp_path / "model.json")
    back = Release.load(tmp_path / "model.json")
    assert back.to_dict() == release.to_dict()
    assert np.array_equal(back.centroids, release.centroids)
    assert (back.guarantee, back.bounds, back.spends) == (release.guarantee, release.bounds, release.spends)
    assert back.transcript == release.transcript


def test_a_release_is_plain_json(release):
    assert json.loads(json.dumps(release.to_dict(), allow_nan=False)) == release.to_dict()


def reachable(start):
    """Everything that can be reached from an object, except through classes, modules and functions."""
    seen, todo = {}, [start]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type) or type(thing).__name__ in ("module", "function"):
            continue
        seen[id(thing)] = thing
        todo.extend(gc.get_referents(thing))
        if isinstance(thing, np.ndarray) and thing.base is not None:
            todo.append(thing.base)
    return list(seen.values())


def test_nothing_as_long_as_the_data_can_be_reached_from_a_release(release):
    things = reachable(release)
    assert any(thing is release.centroids for thing in things)
    for thing in things:
        size = thing.size if isinstance(thing, np.ndarray) else len(thing) if hasattr(thing, "__len__") else 0
        if not isinstance(thing, str):
            assert size < N, type(thing)


def test_the_walk_would_find_records_behind_a_view(releases):
    records = np.zeros((N, 2))
    view = records[:3]
    assert any(thing is records for thing in reachable({"deep": [(view,)]}))


def test_a_release_has_no_labels(release):
    assert not [name for name in release.to_dict() if "label" in name]
    assert not hasattr(release, "labels_")


def test_the_number_of_records_is_not_in_a_release(release):
    assert f" {N}" not in json.dumps(release.to_dict())


def test_a_release_cannot_be_changed(release):
    with pytest.raises(FrozenInstanceError):
        release.method = "su"


def test_epsilon_is_the_release_budget_plus_the_largest_of_each_step(releases):
    for name, step in (("posterior", 0.1), ("prior", 0.2)):
        found = releases[name]
        assert found.epsilon_spent == pytest.approx(0.1 + step * found.n_iter, abs=1e-12)
        assert len(found.spends) == found.n_iter + 1
        assert [len(spend.parts) for spend in found.spends] == [3] * found.n_iter + [1]
        assert found.epsilon_promised is None
    assert releases["lloyd"].epsilon_spent == 0
    assert releases["su"].epsilon_promised == releases["su"].epsilon_spent == 1.0


def test_the_transcript_has_a_line_per_iteration_and_cluster(releases):
    found = releases["posterior"]
    lines = found.to_dict()["transcript"]
    assert [(line["iteration"], line["cluster"]) for line in lines] == [
        (t, i) for t in range(1, found.n_iter + 1) for i in range(3)
    ]
    assert {line["score"] for line in lines} == {"(1 - delta) + (1 - 2|alpha|/pi)"}
    assert {line["step_epsilon"] for line in lines} == {0.1}
    assert not any("centroid" in line for line in lines)
    assert not releases["lloyd"].transcript


def test_the_transcript_shows_centroids_inside_their_zones_when_asked_for(releases):
    for line in releases["posterior with centroids"].to_dict()["transcript"]:
        away = np.linalg.norm(np.subtract(line["centroid"], line["center"]))
        assert away <= line["radius"] + 1e-12


def test_an_iteration_makes_one_pass_and_with_the_prior_strategy_two(releases):
    for name, passes in (("lloyd", 1), ("posterior", 1), ("prior", 2)):
        assert releases[name].n_passes == passes * releases[name].n_iter
        assert releases[name].converged is True
    assert releases["su"].converged is None


def test_a_summary_says_what_holds(releases):
    assert releases["su"].summary().startswith("Proved: 1-differential privacy")
    assert releases["posterior"].summary().startswith("Not proved")
    assert releases["lloyd"].summary().startswith("Not private")


def damaged(content, path, value):
    content = json.loads(json.dumps(content)) | {"identity": None}  # it could be made anew, as a checksum can
    *way, last = path
    place = content
    for step in way:
        place = place[step]
    if value is KeyError:
        del place[last]
    else:
        place[last] = value
    return content


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("centroids",), KeyError),
        (("centroids",), []),
        (("centroids",), [[0.1], [0.2, 0.3]]),
        (("centroids",), [[0.1, 0.2, 0.3]]),
        (("centroids",), [["a", "b"]]),
        (("centroids",), [[10**400, 0]]),
        (("centroids", 0, 0), None),
        (("guarantee",), None),
        (("guarantee", "label"), "superb"),
        (("guarantee", "label"), ["proved"]),
        (("guarantee", "bounds"), "guessed"),
        (("guarantee", "arithmetic"), "magic"),
        (("bounds", "lower"), [2.0, 2.0]),
        (("bounds", "lower"), [0.0]),
        (("bounds", "upper"), ["x", 1]),
        (("spends",), [{"label": "x", "nano": []}]),
        (("spends",), [{"label": "x", "nano": [-5]}]),
        (("spends",), [{"label": "x"}]),
        (("spends",), 7),
        (("epsilon_promised",), "much"),
        (("epsilon_promised",), -1),
        (("n_iter",), None),
        (("n_passes",), "x"),
        (("transcript",), [{"iteration": 1}]),
        (("transcript", 0, "center"), [0.5]),
        (("transcript", 0, "cluster"), 99),
        (("transcript", 0, "radius"), 10**400),
        (("feature_names",), ["only one"]),
        (("sizes",), [1.0]),
        (("parameters",), 3),
    ],
)
def test_damaged_content_is_refused_even_with_a_right_checksum(releases, tmp_path, path, value):
    content = damaged(releases["posterior"].to_dict(), path, value)
    write_json(tmp_path / "model.json", KIND, VERSION, content)
    with pytest.raises(FileError, match="damaged"):
        Release.load(tmp_path / "model.json")


def test_nan_in_content_is_refused(releases):
    for path in (("centroids", 0, 0), ("transcript", 0, "radius"), ("transcript", 0, "center", 0)):
        with pytest.raises(FileError, match="damaged"):
            Release.from_dict(damaged(releases["posterior"].to_dict(), path, float("nan")))


def test_options_given_as_numpy_numbers_can_be_written(tmp_path):
    found = fitted("posterior", max_iter=np.int64(50), step_epsilon=np.float64(0.5))
    found.release_.save(tmp_path / "model.json")
    assert Release.load(tmp_path / "model.json").parameters["max_iter"] == 50


def test_a_box_read_from_data_is_remembered(releases):
    assert Release.from_dict(releases["seeded"].to_dict()).bounds.from_data


def test_what_is_shown_of_a_release_names_no_smaller_epsilon_than_was_spent(releases, capsys):
    release = replace(releases["su"], spends=(Spend("counts", (Epsilon.of(1.0000049),)),), epsilon_promised=1.0000049)
    assert release.summary().startswith("Proved: 1.0000049-differential privacy")
    assert "1.0000049-differential privacy" in release._repr_html_()
    print_release(release)
    shown = capsys.readouterr().out
    assert shown.count("1.0000049\n") == 2  # spent and promised
    assert "1.0000049" in release.report()
