"""Products and eigenvectors in loops of one order: BLAS and LAPACK differ in the last place by processor."""

from __future__ import annotations

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.kernels.jit import compiled


@compiled
def product(a: FloatArray, b: FloatArray) -> FloatArray:
    """a b for shapes (m, n) and (n, q)."""
    out = np.zeros((len(a), b.shape[1]))
    for i in range(len(a)):
        for j in range(len(b)):
            for q in range(b.shape[1]):
                out[i, q] += a[i, j] * b[j, q]
    return out


@compiled
def orthonormalise(rows: FloatArray) -> None:
    """Modified Gram-Schmidt, twice, in place, on rows (m, d). A row that depends on those before becomes zero."""
    for i in range(len(rows)):
        for _ in range(2):
            for before in range(i):
                along = 0.0
                for j in range(rows.shape[1]):
                    along += rows[before, j] * rows[i, j]
                for j in range(rows.shape[1]):
                    rows[i, j] -= along * rows[before, j]
        square = 0.0
        for j in range(rows.shape[1]):
            square += rows[i, j] * rows[i, j]
        scale = 1.0 / np.sqrt(square) if square > 1e-200 else 0.0
        for j in range(rows.shape[1]):
            rows[i, j] *= scale


@compiled
def leading_rows(matrix: FloatArray, rows: FloatArray, shift: float, n_iter: int) -> FloatArray:
    """Subspace iteration with a symmetric matrix (d, d), plus `shift` on its diagonal, from `rows` (m, d)."""
    orthonormalise(rows)
    for _ in range(n_iter):
        moved = product(rows, matrix)
        for i in range(len(rows)):
            for j in range(rows.shape[1]):
                rows[i, j] = moved[i, j] + shift * rows[i, j]
        orthonormalise(rows)
    return rows


@compiled
def jacobi(matrix: FloatArray, n_sweeps: int) -> FloatArray:
    """Rotate a symmetric matrix (m, m) in place to diagonal form. Returns the rotation (m, m), a row per value."""
    m = len(matrix)
    turn = np.eye(m)
    for _ in range(n_sweeps):
        for p in range(m):
            for q in range(p + 1, m):
                if matrix[p, q] == 0.0:
                    continue
                theta = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
                t = (1.0 if theta >= 0.0 else -1.0) / (abs(theta) + np.sqrt(theta * theta + 1.0))
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for i in range(m):
                    a, b = matrix[i, p], matrix[i, q]
                    matrix[i, p], matrix[i, q] = c * a - s * b, s * a + c * b
                for i in range(m):
                    a, b = matrix[p, i], matrix[q, i]
                    matrix[p, i], matrix[q, i] = c * a - s * b, s * a + c * b
                    a, b = turn[p, i], turn[q, i]
                    turn[p, i], turn[q, i] = c * a - s * b, s * a + c * b
    return turn


def leading_eigenvectors(
    matrix: FloatArray, start: FloatArray, shift: float, n_iter: int
) -> tuple[FloatArray, FloatArray]:
    """The largest eigenvalues, largest first, and their vectors as rows, about as many as `start` (m, d) has rows."""
    rows = leading_rows(matrix, start.copy(), shift, n_iter)
    small = product(product(rows, matrix), np.ascontiguousarray(rows.T))
    small = (small + small.T) / 2
    turn = jacobi(small, 12)
    values = np.diag(small).copy()
    order = np.argsort(-values, kind="stable")
    return values[order], product(np.ascontiguousarray(turn[order]), rows)
