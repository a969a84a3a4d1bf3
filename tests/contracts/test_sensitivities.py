"""What every question declares about one record, held against random neighbours, at both ends. Exact: no noise here.

The proof pages cite these declarations; mechanisms scale their noise by them and by nothing else.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synopsis import test_residual_queries as made

import dpkmeans
from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.engine import cell_counts, centred_sums
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.kinds import Boolean, Number
from dpkmeans.core.query import Query, Sensitivity
from dpkmeans.data.source import array_batch
from dpkmeans.engines import block_tasks, corner_check, cost_task
from dpkmeans.engines.cost_task import check_costs
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.engines.survey import over_batches
from dpkmeans.errors import BudgetError
from dpkmeans.evaluation.bins import Binned
from dpkmeans.evaluation.queries import ClusterHistograms, FitQuality
from dpkmeans.kernels import jit
from dpkmeans.methods.bounds_estimate import histogram
from dpkmeans.methods.dp_em import Components, one_component
from dpkmeans.methods.gupt import block_sum_sensitivity, gupt
from dpkmeans.methods.mixture_moments import Moments
from dpkmeans.privacy.randomness import Randomness
from dpkmeans.synopsis.box_fit import outside_half_box, quarters_of
from dpkmeans.synopsis.grid_cells import GridCells
from dpkmeans.synopsis.tree_cells import leaf_counts
from dpkmeans.synopsis.zoom import cells_a_side, intervals, records_along, records_in, records_within
from dpkmeans.synopsis.zoom import rectangles as candidates
from dpkmeans.synopsis.zoom_cells import Parts

BOXES = [box for name, box in made.BOXES.items() if name != "many"]
MAX_RECORDS = 6


def engine_of(records: np.ndarray, box: Bounds) -> MemoryEngine:
    return MemoryEngine.of_records(records, box, n_threads=1)


def bounds_histogram(records):
    """The histogram from which bounds are estimated."""
    return histogram(lambda task: over_batches(task, [array_batch(records)], "refuse"), range(records.shape[1]))


def asked(make):
    """A query of the synopsis: the same for both neighbours."""

    def question(rng, box):
        query = make(rng, box)
        return lambda records: engine_of(records, box).answer(query)

    return question


def of_cells(transform):
    """Something about the cells of random centroids."""

    def question(rng, box):
        centroids = rng.random((int(rng.integers(1, 5)), box.n_features)) * box.unit_box
        return lambda records: transform(engine_of(records, box).cell_statistics(centroids))

    return question


def costs(rng, box):
    candidates = rng.random((int(rng.integers(2, 6)), int(rng.integers(1, 4)), box.n_features)) * box.unit_box
    return lambda records: engine_of(records, box).costs(candidates)


def block_sums(rng, box):
    key, seed, k = rng.bytes(16), int(rng.integers(2**32)), int(rng.integers(1, 3))

    def answer(records):
        blocks = engine_of(records, box).partition(3, key)
        answers = [gupt()._answer(block, k, seed + i, Randomness.with_seed(0)) for i, block in enumerate(blocks)]
        return Exact(np.sum(answers, axis=0), block_sum_sensitivity(k, box))

    return answer


def mixture_moments(rng, box):
    engine_of(np.zeros((1, box.n_features)), box).answer(Moments(box, one_component(box).mixture()))  # as a fit does
    k, d = int(rng.integers(1, 4)), box.n_features
    spread = np.tile(10 ** rng.uniform(-3, 0) * np.eye(d), (k, 1, 1))
    query = Moments(box, Components(np.ones(k), rng.random((k, d)) * box.unit_box, spread).mixture())
    return lambda records: engine_of(records, box).answer(query)


def rectangles(rng, box):
    wide = np.flatnonzero(box.unit_box)[:3]
    parts = np.ones(box.n_features, np.int64)
    parts[wide] = cells_a_side(len(wide))
    cells = GridCells(box.unit_box, np.ones_like(parts), parts[None, :])
    begin, end = candidates(len(wide))
    return lambda records: records_in(engine_of(records, box).answer(cells), begin, end)


def nested_boxes(rng, box):
    query = made.shells(rng, box)
    return lambda records: records_within(engine_of(records, box).answer(query))


def along_a_side(rng, box):
    side, ends = int(rng.integers(box.n_features)), intervals(32, (32, 16, 8, 4, 2, 1), 2)
    return lambda records: records_along(engine_of(records, box).answer(Parts(box.unit_box, 32)), side, *ends)


def counted_leaves(rng, box):
    query = made.leaves(rng, box)
    return lambda records: leaf_counts(engine_of(records, box).answer(query.cells), query)


def fit_quality(rng, box):
    centroids = rng.random((int(rng.integers(1, 5)), box.n_features)) * box.unit_box
    query = FitQuality(centroids, 10 ** rng.uniform(-6, 0.5))
    return lambda records: engine_of(records, box).answer(query)


def cluster_histograms(rng, box):
    """Of the first feature, in ranges, and of the last once more, as a boolean."""
    centroids = rng.random((int(rng.integers(1, 4)), box.n_features)) * box.unit_box
    ranges = Binned("a", Number(), ("low", "high", "missing"), 0, (0.0, float(rng.random()), 1.0))
    truth = Binned("b", Boolean(), ("true", "false", "missing"), box.n_features - 1)
    task = ClusterHistograms(box, centroids, "refuse", (ranges, truth))
    return lambda records: Exact(over_batches(task, [array_batch(records)], "keep"), task.sensitivity)


def outside_of_half_boxes(rng, box):
    cells = quarters_of(box.unit_box)
    return lambda records: outside_half_box(engine_of(records, box).answer(cells), cells)


QUESTIONS = {
    "number of records": (
        lambda rng, box: lambda records: engine_of(records, box).count(),
        {"l1", "l2_squared", "linf"},
    ),
    "cell counts": (of_cells(cell_counts), {"l1", "l2_squared", "linf"}),
    "cell counts in steps": (of_cells(lambda exact: cell_counts(exact, steps=GRID)), {"l1", "l2_squared", "linf"}),
    "centred sums": (of_cells(centred_sums), {"l1", "l2_squared", "linf", "columns"}),
    "residuals": (asked(made.residuals), {"l1", "l2_squared", "linf", "columns", "gap"}),
    "residual sizes": (asked(made.residual_sizes), {"l1", "l2_squared", "linf", "gap"}),
    "values near a mean": (asked(made.near_a_mean), {"l1", "l2_squared", "linf", "gap"}),
    "grid cells": (asked(made.grid_cells), {"l1", "l2_squared", "linf", "columns"}),
    "halvings": (asked(made.halvings), {"l1", "l2_squared", "linf", "columns"}),
    "leaves": (asked(made.leaves), {"l1", "l2_squared", "linf", "columns", "gap"}),
    "counts of leaves": (counted_leaves, {"l1", "l2_squared", "linf", "columns"}),
    "sides": (asked(made.sides), {"l1", "l2_squared", "linf", "columns"}),
    "spread": (asked(made.spread), {"l1", "l2_squared", "linf", "columns"}),
    "shells": (asked(made.shells), {"l1", "l2_squared", "linf", "columns"}),
    "rings": (asked(made.rings), {"l1", "l2_squared", "linf", "columns"}),
    "a part and its rings": (asked(made.split), {"l1", "l2_squared", "linf", "columns"}),
    "leaves of a squeezed view": (asked(made.squeezed), {"l1", "l2_squared", "linf", "columns", "gap"}),
    "parts of sides": (asked(made.parts_of_sides), {"l1", "l2_squared", "linf", "gap"}),
    "records outside half boxes": (outside_of_half_boxes, {"l1", "l2_squared", "linf", "columns"}),
    "residuals of some features": (asked(made.of_features), {"l1", "l2_squared", "linf", "columns", "gap"}),
    "records in rectangles": (rectangles, {"linf", "gap"}),
    "records in nested boxes": (nested_boxes, {"linf", "gap"}),
    "records along a side": (along_a_side, {"linf", "gap"}),
    "histogram for the bounds": (
        lambda rng, box: lambda records: bounds_histogram(records),
        {"l1", "l2_squared", "linf", "gap"},
    ),
    "quality of a fit": (fit_quality, {"linf"}),
    "histograms of clusters": (cluster_histograms, {"l1", "l2_squared", "linf", "gap"}),
    "costs of candidates": (costs, set()),  # rounded up with a margin: proofs/privgene.md
    "moments under a mixture": (mixture_moments, set()),  # products reach 49/50: test_dp_em.py
    "sums over blocks": (block_sums, set()),  # any two blocks may be a side apart: test_gupt.py
}
"""Every question whose answer a mechanism takes, and in which norms its proof calls the declaration tight."""


def records_at(rng: np.random.Generator, n: int, box: Bounds) -> np.ndarray:
    """Records inside, in corners of, and beyond the box, shape (n, d)."""
    lower, upper = np.array(box.lower), np.array(box.upper)
    inside = lower + rng.random((n, len(lower))) * (upper - lower)
    corners = np.where(rng.random(inside.shape) < 0.5, lower, upper)
    return np.where(rng.random((n, 1)) < 0.4, inside, np.where(rng.random((n, 1)) < 0.8, corners, 1e9))


def norms_of(change: np.ndarray) -> dict[str, Any]:
    """The change between two answers in every norm that can be declared."""
    entries = [int(entry) for entry in change.ravel()]
    sizes = [abs(entry) for entry in entries]
    table = np.abs(change.reshape(len(change), -1)) if change.ndim else np.abs(change.reshape(1, 1))
    return {
        "l1": sum(sizes),
        "l2_squared": sum(size**2 for size in sizes),
        "linf": max(sizes),
        "gap": max(entries) - min(entries),
        "columns": tuple(table.max(axis=0).tolist()),
    }


def compared(declared: Sensitivity, change: np.ndarray) -> set[str]:
    """Asserts that no norm of the change passes what is declared. Returns the norms that are reached."""
    found = norms_of(change)
    reached = set()
    for field in fields(Sensitivity):
        bound = getattr(declared, field.name)
        if field.name == "one_row":
            rows = np.count_nonzero(change.reshape(len(change), -1).any(axis=1)) if change.ndim else 1
            assert rows <= 1 or not bound, "more than one row changed"
        elif field.name == "columns":
            if bound is not None and change.ndim == 2:
                assert all(a <= b for a, b in zip(found["columns"], bound, strict=True)), "a column changed by more"
                reached |= {"columns"} if found["columns"] == bound else set()
        elif bound is not None:
            assert found[field.name] <= bound, f"{field.name} is {found[field.name]}, more than the declared {bound}"
            reached |= {field.name} if found[field.name] == bound else set()
    return reached


def neighbours_hold(question) -> Counter:
    """200 pairs of neighbours and more, of which none passes the declaration. How often each norm was reached."""
    reached: Counter = Counter()

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**32 - 1))
    def one_record_more(seed):
        rng = np.random.default_rng(seed)
        box = BOXES[int(rng.integers(len(BOXES)))]
        answer = question(rng, box)
        records = records_at(rng, int(rng.integers(MAX_RECORDS + 1)), box)
        before = answer(records)
        for record in records_at(rng, 3, box):
            after = answer(np.insert(records, int(rng.integers(len(records) + 1)), record, axis=0))
            assert after.sensitivity == before.sensitivity  # it is public: no record may change it
            change = reveal(after, why="a test") - reveal(before, why="a test")
            if change.size:
                reached.update(compared(before.sensitivity, change))

    one_record_more()
    return reached


@pytest.mark.parametrize("name", QUESTIONS)
def test_no_record_changes_an_answer_by_more_than_its_question_declares_and_corners_reach_it(name):
    question, tight = QUESTIONS[name]
    assert tight <= set(neighbours_hold(question))


@dataclass(frozen=True)
class Understated:
    """A query that declares less than it adds."""

    query: Query
    sensitivity: Sensitivity

    @property
    def shape(self):
        return self.query.shape

    def add(self, tiles, n, table):
        self.query.add(tiles, n, table)


def understated(norm):
    """Residuals that declare one step less in one norm, past the engine's own check."""

    def question(rng, box):
        query = made.residuals(rng, box)
        bound = getattr(query.sensitivity, norm)
        less = tuple(b - 1 for b in bound) if norm == "columns" else bound - 1
        wrong = Understated(query, replace(query.sensitivity, **{norm: less}))
        corner_check._CHECKED.update((Understated, compiled) for compiled in (False, True))
        return lambda records: engine_of(records, box).answer(wrong)

    return question


@pytest.mark.parametrize("norm", ["l1", "l2_squared", "linf", "gap", "columns"])
def test_a_query_that_declares_one_step_too_little_is_caught(norm, monkeypatch):
    monkeypatch.setattr(corner_check, "_CHECKED", set())
    with pytest.raises(AssertionError, match="more"):
        neighbours_hold(understated(norm))


def test_a_question_that_changes_two_rows_and_declares_one_is_caught():
    def question(rng, box):
        def answer(records):
            exact = bounds_histogram(records)
            return Exact(reveal(exact, why="a test"), replace(exact.sensitivity, one_row=True))

        return answer

    with pytest.raises(AssertionError, match="row"):
        neighbours_hold(question)


def test_a_question_that_declares_too_much_is_caught():
    def question(rng, box):
        query = made.residuals(rng, box)
        return lambda records: Exact(
            reveal(engine_of(records, box).answer(query), why="a test"), query.sensitivity.times(2)
        )

    assert not QUESTIONS["residuals"][1] & set(neighbours_hold(question))


# --- and at run time, once per process ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*(make for make, _ in made.QUERIES.values()), *made.SIZES])
def test_every_query_of_the_synopsis_passes_the_check_of_its_compiled_code(make, monkeypatch):
    for seed in range(30):
        for box in made.BOXES.values():
            monkeypatch.setattr(corner_check, "_CHECKED", set())
            query = make(np.random.default_rng(seed), box)
            corner_check.check_corner(query, box.n_features)
            assert type(query) in {kind for kind, _ in corner_check._CHECKED}


@pytest.mark.parametrize("factor", [16, 1 / 16])
@pytest.mark.parametrize("make", [made.residuals, made.leaves, made.spread])
def test_code_that_adds_something_else_than_its_query_declares_is_refused_before_anything_is_released(
    make, factor, monkeypatch
):
    monkeypatch.setattr(corner_check, "_CHECKED", set())
    box = made.BOXES["unit"]
    query = make(np.random.default_rng(0), box)
    linf = int(query.sensitivity.linf / factor)
    frozen = Understated(query, Sensitivity.of_row((linf,) * query.shape[1]))
    with pytest.raises(BudgetError, match="compiled code"):
        engine_of(np.full((5, 2), 0.5), box).answer(frozen)


class Overtaken:
    """A count that is right in plain code, and sixteen times too large in compiled code, which takes over midway."""

    shape = (1, 1)
    sensitivity = Sensitivity.of_row((1,))

    def add(self, tiles, n, table):
        table[0, 0] += n * (16 if jit.compiles() else 1)
        if n > 1:
            jit.compile_from_now_on()


def test_compiled_code_that_takes_over_in_the_middle_of_a_pass_is_checked_before_anything_is_released(monkeypatch):
    monkeypatch.setattr(corner_check, "_CHECKED", set())
    monkeypatch.setattr(jit, "_PLAIN", jit._Plain())
    with pytest.raises(BudgetError, match="nothing is released"):
        engine_of(np.full((5, 2), 0.5), made.BOXES["unit"]).answer(Overtaken())


# --- who may say what a sensitivity is ---------------------------------------------------------------------------

DECLARES = {
    "core/exact.py",
    "core/engine.py",
    "engines/block_engine.py",
    "engines/memory.py",
    "engines/persons.py",
    "evaluation/queries.py",
    "kernels/score_range.py",
    "methods/bounds_estimate.py",
    "methods/gupt.py",
    "methods/mixture_moments.py",
    "methods/privgene.py",
    "synopsis/box_fit.py",
    "synopsis/grid_cells.py",
    "synopsis/hyperplane_cells.py",
    "synopsis/residual_queries.py",
    "synopsis/synopsis.py",
    "synopsis/tree_cells.py",
    "synopsis/view.py",
    "synopsis/zoom.py",
    "synopsis/zoom_cells.py",
    "wide/queries.py",
    "core/query.py",
}
UNPROVED = {"methods/gupt.py", "methods/privgene.py"}
"""Where the papers' local sensitivities are used, in methods labelled `paper`."""


def test_sensitivities_are_declared_in_a_few_places_and_taken_by_hand_nowhere():
    root = Path(dpkmeans.__file__).parent
    declares, unproved = set(), set()
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.split(".")[0] in ("Sensitivity", "cell_sensitivity") and not name.startswith("audit/"):
                    declares.add(name)
                if called.endswith("with_local_sensitivity"):
                    unproved.add(name)
    assert declares <= DECLARES
    assert unproved == UNPROVED


@pytest.mark.parametrize(("kernel", "place"), [("reassign", 6), ("add_costs", 6)])
def test_compiled_answers_that_add_too_much_for_a_corner_record_are_refused(monkeypatch, kernel, place):
    module, check = (block_tasks, block_tasks.check_statistics) if kernel == "reassign" else (cost_task, check_costs)
    right = getattr(module, kernel)

    def sixteenfold(*arguments):
        found = right(*arguments)
        arguments[place][:] *= 16
        return found

    check.cache_clear()
    monkeypatch.setattr(module, kernel, sixteenfold)
    with pytest.raises(BudgetError, match="nothing is released"):
        check()
    monkeypatch.undo()
    check.cache_clear()
    check()
