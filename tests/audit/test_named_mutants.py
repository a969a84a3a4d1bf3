"""Every mutant has a name, and is run against what is claimed to find it: docs/audit.md has the same table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpkmeans.audit import small_samplers
from dpkmeans.audit.hard_pairs import run_of
from dpkmeans.audit.losses import exactly
from dpkmeans.audit.mutants import mutant_targets
from dpkmeans.audit.person_targets import person_mutants
from dpkmeans.audit.replay import Replayed, replay
from dpkmeans.audit.replay_mutants import is_found, mutants
from dpkmeans.core.engine import centred_sums
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.unit import Person
from dpkmeans.methods import persons
from dpkmeans.methods.loop import updates
from dpkmeans.privacy.linf_laplace import offsets
from dpkmeans.privacy.mechanisms import PermuteAndFlip
from dpkmeans.session import FitRequest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
REQUEST = FitRequest(method="blum", epsilon=1.0, n_clusters=2, bounds=(-1.0, 3.0), nulls="midpoint")
Door = Callable[[list[str]], pd.DataFrame]


# --- the door: lines of text become records -----------------------------------------------------------------------


def line_by_line(lines: list[str]) -> pd.DataFrame:
    """What a sound door does: each line by itself, what is no number is missing, names are public."""
    return pd.DataFrame([[number(field) for field in line.split(",")] for line in lines], columns=["a", "b"])


def header_guessed(lines: list[str]) -> pd.DataFrame:
    """The first line is taken for a header if one of its fields is no number."""
    first = lines[0].split(",")
    if not any(np.isnan(number(field)) for field in first):
        return line_by_line(lines)
    return line_by_line(lines[1:]).set_axis(first, axis=1)


def cast_to_decimals(lines: list[str]) -> pd.DataFrame:
    """All values get as many places as the first one has, as a column of decimals does."""
    places = len(lines[0].split(",")[0].partition(".")[2])
    return line_by_line(lines).round(places)


def number(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return float("nan")


def through(door: Door) -> Iterator[Replayed]:
    """Forty records, and one more that stands first and says little or too much."""
    rng = np.random.default_rng(0)
    lines = [f"{int(a)},{b:.3f}" for a, b in zip(rng.integers(0, 3, 40), rng.uniform(0, 2, 40), strict=True)]
    for extra in ("n/a,0.5", "0.25,1"):
        yield replay(run_of(REQUEST, door(lines)), run_of(REQUEST, door([extra, *lines])), 0)


def float32_sums(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replayed]:
    """Sums are added up in float32, whose steps are wider than one record."""

    def rounded(stats: Exact) -> Exact:
        exact = centred_sums(stats)
        return Exact(reveal(exact, why="a mutant").astype(np.float32).astype(np.int64), exact.sensitivity)

    monkeypatch.setattr(updates, "centred_sums", rounded)
    yield from crowded()


def crowded() -> Iterator[Replayed]:
    """Thousands of records near a corner, and one more in it. The sides of the box are not multiples of each other."""
    asked = replace(REQUEST, n_clusters=1, bounds=([-1.0, -1.0], [3.0, 1.9]))
    rng = np.random.default_rng(0)
    for _ in range(8):
        records = rng.uniform((2.5, 1.5), (3.0, 1.9), (9000, 2))
        yield replay(run_of(asked, records), run_of(asked, np.vstack([records, [[3.0, 1.9]]])), 0)


def persons_not_rescaled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replayed]:
    """A method behind the door of persons gets the whole budget, as if a person were one record."""
    monkeypatch.setattr(persons, "ledger_of_records", lambda units, records: units)
    yield from a_person_more()


def a_person_more() -> Iterator[Replayed]:
    """Twenty persons with two rows each, and one more with three rows in a corner."""
    unit = Person("id", at_most=3)
    asked = replace(REQUEST, method="eugkm", bounds={"a": (0.0, 1.0), "b": (0.0, 1.0)}, unit=unit)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(0, 1, (40, 2)), columns=["a", "b"]).assign(id=np.arange(40) // 2)
    more = pd.concat([table, pd.DataFrame({"a": [1.0] * 3, "b": [1.0] * 3, "id": [99] * 3})], ignore_index=True)
    for seed in range(6):
        yield replay(run_of(asked, table), run_of(asked, more), seed, records=unit.records)


# --- the source of noise ------------------------------------------------------------------------------------------

AFTER_A_FORK = """
import os, sys
from fractions import Fraction
import numpy as np
from dpkmeans.privacy.randomness import SecureNoise, SeededNoise

source = {source}
source.laplace(np.zeros(3, np.int64), Fraction(2**20))  # a parent that has drawn before
for _ in range(2):
    if os.fork() == 0:
        os.write(1, (str(source.laplace(np.zeros(8, np.int64), Fraction(2**20)).tolist()) + chr(10)).encode())
        os._exit(0)
    os.wait()
"""


def draws_are_equal_after_a_fork(source: str) -> bool:
    """Of two children of one process. Different draws are equal by chance with a probability below 1e-40."""
    code = AFTER_A_FORK.format(source=source)
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = told.stdout.split("\n")[:2]
    return first == second


# --- samplers -----------------------------------------------------------------------------------------------------


class Strict(PermuteAndFlip):
    """A candidate stays only where its draw is beyond its distance."""

    def release(self, exact, *, ledger, rng, label):
        scores = reveal(exact, why="a mutant")
        stays = np.flatnonzero(rng.noise.geometric(scores.size, 1 / self.epsilon.fraction) > scores.max() - scores)
        return int(stays[rng.noise.below(stays.size)]) if stays.size else int(scores.argmax())


def strict_choice(monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(small_samplers, "PermuteAndFlip", Strict)
    with exactly():
        return is_off(small_samplers.choices(1))


def offset_left_out(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Norms of the max-norm noise are sums of geometric draws alone, nearly."""
    monkeypatch.setattr(small_samplers, "offsets", lambda source, n, dims, scale: offsets(source, n, dims, scale / 64))
    with exactly():
        return is_off(small_samplers.max_norm(2))


def corners_twice(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Points of a shell that lie on several faces are accepted from each of them."""

    def shell(source, norms, dims):
        draw = source.below_each(np.full(dims, 2 * norms[0] + 1)) - norms[0]
        face, side = divmod(int(source.below_each(np.full(1, 2 * dims))[0]), 2)
        draw[face] = (2 * side - 1) * norms[0]
        return draw[None]

    monkeypatch.setattr(small_samplers, "on_shell", shell)
    try:
        with exactly():
            small_samplers.max_norm(2)
    except ArithmeticError:
        return True
    return False


def is_off(found: small_samplers.Enumerated) -> bool:
    return found.off > Decimal(10) ** -30


# --- all of them --------------------------------------------------------------------------------------------------

REPLAY, WORLDS, PROPERTY, STATISTICS = "replay", "small worlds", "a property test", "statistics"
HERE: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], bool]]] = {
    "a header that is guessed": (REPLAY, lambda _: is_found(through(header_guessed))),
    "a decimal cast": (REPLAY, lambda _: is_found(through(cast_to_decimals))),
    "a float32 sum": (REPLAY, lambda patch: is_found(float32_sums(patch))),
    "a missing rescale under persons": (REPLAY, lambda patch: is_found(persons_not_rescaled(patch))),
    "a seed reused after fork": (PROPERTY, lambda _: draws_are_equal_after_a_fork("SeededNoise(7)")),
    "a choice that drops ties": (WORLDS, strict_choice),
    "max-norm noise without its offset": (WORLDS, offset_left_out),
    "corners of a shell counted twice": (WORLDS, corners_twice),
}


@pytest.mark.parametrize("name", HERE)
def test_a_mutant_at_the_edge_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert HERE[name][1](monkeypatch)


def test_what_finds_the_mutants_accuses_nothing_sound() -> None:
    assert not is_found(through(line_by_line))
    assert not is_found(crowded())
    assert not is_found(a_person_more())
    assert not draws_are_equal_after_a_fork("SecureNoise()")
    with exactly():
        sound = [small_samplers.choices(2), small_samplers.trees(1), *map(small_samplers.max_norm, (1, 2, 3))]
        sound += [small_samplers.laplace_of_two(), small_samplers.geometric_of_laplace()]
        assert [row.sampler for row in sound if is_off(row)] == []
        assert [row.sampler for row in sound if row.largest > row.budget + Decimal(10) ** -30] == []


def named() -> dict[str, str]:
    """All mutants and what finds each: here, in test_replay.py, and in test_power.py and test_persons.py."""
    found = {name: by for name, (by, _) in HERE.items()} | dict.fromkeys(mutants(), REPLAY)
    for target in mutant_targets(1.0) + person_mutants(1.0):
        name = target.name.removeprefix("mutant: ")
        found[name] = f"{found[name]}, {STATISTICS}" if name in found else STATISTICS
    return found


def test_the_page_names_every_mutant_and_what_finds_it() -> None:
    text = PAGE.read_text("utf-8").split("<!-- mutants: begin -->")[1].split("<!-- mutants: end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert {row[0]: row[1] for row in rows[2:]} == named()
