from __future__ import annotations

import numpy as np

from dpkmeans.kernels.sphere_packing import first_apart


def test_the_first_try_that_keeps_its_distance_from_all_points_is_found():
    points = np.array([[0.0, 0.0], [1.0, 0.0]])
    tries = np.array([[0.1, 0.0], [0.9, 0.1], [0.5, 0.5], [0.5, 0.75]])
    assert first_apart(tries, points, 0.5) == 2  # a distance that is just kept counts
    assert first_apart(tries, points, 0.51) == 3
    assert first_apart(tries, points, 9.0) == -1
    assert first_apart(tries, points[:0], 9.0) == 0
    assert first_apart(tries[:0], points, 0.0) == -1
