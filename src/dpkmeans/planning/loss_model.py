"""The public model behind `plan`: the loss of a single fit from public quantities, fitted to synthetic data sets.

For each method, log(loss) is linear in four logarithms, plus a Gaussian process over the measured points. So a
prediction is a weighted average over similar data sets, with an uncertainty. `benchmarks/plan.py` writes the file.
Reads no record. Docs: docs/plan.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from dpkmeans._typing import FloatArray

MAX_FEATURES = 16  # of the sets that the model was fitted to
MIN_LOSS = 0.005
"""A loss below half a percent is as good as none, and counts as this."""

MAX_LOG_LOSS = math.log(1e6)
LOW, HIGH = 0.1, 0.9  # quantiles of the range
_NORMAL: FloatArray = ndtri((np.arange(201) + 0.5) / 201)
"""Quantiles of a standard normal, equally likely."""


def features(n_records: float, n_features: int, n_clusters: int, epsilon: float, spread: float) -> list[float]:
    """Logarithms of records times epsilon per cluster, of d, of k and of the spread."""
    return [math.log(v) for v in (n_records * epsilon / n_clusters, n_features, n_clusters, spread)]


def log_loss(losses: Sequence[float]) -> FloatArray:
    """What the model predicts: log(loss), with losses below `MIN_LOSS` counted as that."""
    return np.log(np.maximum(np.asarray(losses, np.float64), MIN_LOSS))


class Expected(NamedTuple):
    """A loss, and the range in which it lies in eight of ten cases."""

    loss: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Surface:
    """log(loss) of one method: `line`, and around it a Gaussian process through `residuals` at `points`, (m, 4)."""

    points: FloatArray
    residuals: FloatArray
    line: FloatArray
    height: float
    lengths: FloatArray
    noise: float

    def at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of log(loss) of a single fit at `x`, shape (q, 4) -> (q,) each."""
        near = self._kernel(x)
        weights = near @ self._inverse
        mean: FloatArray = straight(x) @ self.line + weights @ self.residuals
        variance = self.height + self.noise - (weights * near).sum(axis=1)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    @cached_property
    def _inverse(self) -> FloatArray:
        covariance = self._kernel(self.points) + self.noise * np.eye(len(self.points))
        return np.linalg.inv(covariance).astype(np.float64, copy=False)

    def _kernel(self, x: FloatArray) -> FloatArray:
        apart = ((x[:, None] - self.points[None]) / self.lengths) ** 2
        return np.asarray(self.height * np.exp(-apart.sum(axis=2) / 2))


def straight(x: FloatArray) -> FloatArray:
    """The terms of the line, shape (q, 4) -> (q, 5)."""
    return np.column_stack([np.ones(len(x)), x])


def pooled(mean: FloatArray, deviation: FloatArray) -> Expected:
    """Median and range of an equal mixture of normal log losses, as losses.

    Rounded to six digits: further ones differ between processors, and advice should not.
    """
    values = (mean[:, None] + deviation[:, None] * _NORMAL).ravel()
    low, middle, high = np.exp(
        np.clip(np.quantile(values, [LOW, 0.5, HIGH]), math.log(MIN_LOSS), MAX_LOG_LOSS)
    ).tolist()
    return Expected(*(float(f"{loss:.6g}") for loss in (middle, low, high)))


@dataclass(frozen=True, eq=False)
class LossModel:
    """A surface per method, and the scale of the features; `spreads` are those of the data sets it was fitted to."""

    surfaces: dict[str, Surface]
    centre: FloatArray
    scale: FloatArray
    spreads: tuple[float, ...]

    def expected(self, method: str, n: int, d: int, k: int, epsilon: float, spread: float | None) -> Expected:
        """The expected loss of one fit. Without a spread, a mixture over those of the benchmark."""
        spreads = self.spreads if spread is None else (spread,)
        x = np.array([features(n, d, k, epsilon, s) for s in spreads])
        return pooled(*self.surfaces[method].at((x - self.centre) / self.scale))

    def chance(self, method: str, n: int, d: int, k: int, epsilon: float, spread: float | None, loss: float) -> float:
        """How likely the loss of one fit is at most `loss`, to three digits; see `expected`."""
        spreads = self.spreads if spread is None else (spread,)
        x = np.array([features(n, d, k, epsilon, s) for s in spreads])
        mean, deviation = self.surfaces[method].at((x - self.centre) / self.scale)
        return round(float(np.mean(ndtr((math.log(loss) - mean) / np.maximum(deviation, 1e-9)))), 3)


def surfaces_from(content: dict[str, Any]) -> LossModel:
    """The model from the content of its file."""
    centre, scale = np.array(content["centre"]), np.array(content["scale"])
    points = (np.array(content["features"]) - centre) / scale
    surfaces = {}
    for name, part in content["methods"].items():
        line = np.array(part["line"])
        residuals = np.array(part["log_losses"]) - straight(points) @ line
        surfaces[name] = Surface(points, residuals, line, part["height"], np.array(part["lengths"]), part["noise"])
    return LossModel(surfaces, centre, scale, tuple(content["spreads"]))


@cache
def loss_model() -> LossModel:
    """The model that comes with the package."""
    return surfaces_from(json.loads(files("dpkmeans.planning").joinpath("loss_model.json").read_text("utf-8")))
