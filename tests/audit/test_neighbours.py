from __future__ import annotations

import numpy as np
import pytest

from dpkmeans.audit.neighbours import border, corner, duplicate, empty_cluster, outlier, passes, worst_pairs
from dpkmeans.core.exact import reveal

every_pair = pytest.mark.parametrize("pair", worst_pairs(), ids=lambda pair: pair.name)


def lloyd(pair, with_record, start):
    return reveal(pair.engine(with_record).lloyd(np.array(start), 100), why="test")


def random_ends(pair, with_record, n=300):
    engine, rng = pair.engine(with_record), np.random.default_rng(1)
    starts = (reveal(engine.sample_rows(pair.n_clusters, rng), why="test") for _ in range(n))
    return [reveal(engine.lloyd(start, 100), why="test") for start in starts]


@every_pair
def test_the_sides_differ_by_one_record_inside_the_box_and_pairs_are_the_same_each_time(pair):
    without, with_record = pair.side(False), pair.side(True)
    assert len(with_record) == len(without) + 1
    np.testing.assert_array_equal(with_record[:-1], without)
    assert ((with_record >= 0) & (with_record <= 1)).all()
    again = next(p for p in worst_pairs() if p.name == pair.name)
    np.testing.assert_array_equal(again.side(True), with_record)


def test_the_outlier_founds_a_cluster():
    pair = outlier()
    alone = [any(np.allclose(c, pair.extra, atol=1e-6) for c in end.centroids) for end in random_ends(pair, True)]
    assert all(alone)


def test_the_corner_record_lies_in_a_corner_and_the_border_record_between_two_cells():
    np.testing.assert_array_equal(corner().extra, [1, 1])
    gaps = [np.linalg.norm(border().extra - c) for c in lloyd(border(), False, [[0.25, 0.5], [0.75, 0.5]]).centroids]
    assert abs(gaps[0] - gaps[1]) < 0.02


def test_the_duplicate_is_there_already():
    assert (duplicate().records == duplicate().extra).all(axis=1).sum() == 1


def test_the_lonely_record_lies_in_a_cell_that_is_empty_without_it():
    pair = empty_cluster()
    cells = np.array([[0.25, 0.25], [0.75, 0.75]])
    counts = [reveal(pair.engine(side).cell_statistics(cells), why="test").counts.tolist() for side in (False, True)]
    assert counts == [[11, 0], [11, 1]]


def test_one_record_changes_the_number_of_passes():
    moves = [np.mean([end.moves for end in random_ends(passes(), side)]) for side in (False, True)]
    assert moves[0] > moves[1] + 2
