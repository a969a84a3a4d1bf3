"""Directions, projections that are exact, and records seen in them."""

from __future__ import annotations

import numpy as np

from dpkmeans.core.bounds import GRID, Bounds
from dpkmeans.core.exact import reveal
from dpkmeans.engines.block_tasks import block_of_points
from dpkmeans.engines.memory import MemoryEngine
from dpkmeans.wide.linear_algebra import leading_eigenvectors
from dpkmeans.wide.queries import AtCentres, Rings
from dpkmeans.wide.settings import DIRECTION_BITS
from dpkmeans.wide.subspace import HALF, ProjectedView, leading_subspace, projected, random_subspace


def test_leading_eigenvectors_are_those_of_the_matrix():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    values = np.concatenate([[100.0, 80.0, 50.0, 30.0], rng.uniform(-5, 5, 56)])
    matrix = (basis * values) @ basis.T
    found, rows = leading_eigenvectors((matrix + matrix.T) / 2, rng.random((12, 60)) - 0.5, 5.0, 60)
    assert np.allclose(found[:4], values[:4], rtol=1e-9)
    assert np.allclose(np.abs((rows[:4] * basis[:, :4].T).sum(axis=1)), 1.0, atol=1e-6)
    assert np.allclose(rows @ rows.T, np.eye(12), atol=1e-9)


def test_a_projection_is_an_exact_sum_of_whole_numbers_rounded_once():
    rng = np.random.default_rng(1)
    points, origin = rng.integers(0, GRID + 1, (100, 40)), rng.integers(0, GRID + 1, 40)
    subspace = random_subspace(origin, 300_000.0, 5, rng)
    found = block_of_points(points / GRID)
    tiles = subspace.project(found.tiles)
    rows = tiles.transpose(0, 2, 1).reshape(-1, 5)[:100] * GRID
    exact = (points - origin).astype(object) @ subspace.directions.T.astype(object)
    factor = HALF / (300_000.0 * 2**DIRECTION_BITS)
    expected = np.clip(np.rint(exact.astype(np.float64) * factor) + HALF, 0, GRID)
    assert np.array_equal(rows, expected)


def test_lifting_undoes_a_projection_within_the_subspace():
    rng = np.random.default_rng(2)
    subspace = random_subspace(np.full(50, HALF), 100_000.0, 6, rng)
    inside = subspace.lift(rng.uniform(-HALF, HALF, (10, 6)))
    assert np.abs(subspace.within(inside) - inside).max() < 1e-3 * np.abs(inside).max()
    assert np.abs(subspace.within(inside - subspace.within(inside))).max() < 1e-3 * np.abs(inside).max()


def test_records_held_as_projections_answer_as_those_projected_in_each_pass():
    rng = np.random.default_rng(3)
    records, box = rng.random((5000, 30)), Bounds.of((0, 1), 30)
    subspace = random_subspace(np.full(30, HALF), 200_000.0, 4, rng)
    centres = rng.integers(-100_000, 100_000, (5, 4))
    query = AtCentres(np.full(4, HALF), centres, 50_000, 7, 9, 80_000, 5, Rings(float(HALF)))
    answers = []
    for n_threads in (1, 2):
        engine = MemoryEngine.of_records(records, box, n_threads=n_threads)
        for view in (projected(engine, subspace), ProjectedView(engine, subspace)):
            answers.append(reveal(view.answer(query), why="a test"))
    assert all(np.array_equal(answer, answers[0]) for answer in answers)


def test_a_subspace_is_the_same_for_the_same_matrix_and_generator():
    matrix = np.diag(np.arange(30, 0, -1.0))
    made = [
        leading_subspace(matrix, np.zeros(30, np.int64), 1.0, 5, 1.0, np.random.default_rng(4)).directions
        for _ in range(2)
    ]
    assert np.array_equal(*made)
