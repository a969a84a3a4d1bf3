"""SVG animation of the centroids' trajectory in two features."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.release import Release
from dpkmeans.report.derived import evenly_spaced, synopsis_of
from dpkmeans.report.trajectory import AnimationFrame, Balls, frames_of

WIDTH = 640.0
MAX_CLUSTERS = 100
MAX_SHAPES = 2400  # over all frames
MAX_TRAIL = 3000  # corners of all trails together
BINS = 160  # of the picture of the synopsis, across
NEIGHBOURS = 2  # on a grid the nearest ones on two sides, so that neighbouring bells melt together
DENSITY_COLOUR = (0.46, 0.50, 0.57)  # red, green, blue; can be seen on white and on black
MARGIN = 0.03  # of the drawing


@dataclass(frozen=True)
class Animation:
    """A drawing with its frames; each frame maps a kind of shape to its positions, cluster by cluster."""

    width: float
    height: float
    k: int
    words: str
    kinds: tuple[str, ...]
    density: str | None
    trails: list[str]
    ends: list[tuple[float, float]]
    frames: list[dict[str, Any]]
    last: int


@dataclass(frozen=True)
class _View:
    """From the units of the data to the drawing, in the two features `x` and `y`."""

    x: int
    y: int | None
    left: float
    top: float
    across: float  # drawing units per unit of the data
    down: float
    height: float

    def places(self, points: FloatArray) -> list[tuple[float, float]]:
        xs = WIDTH * MARGIN + (points[:, self.x] - self.left) * self.across
        ys = np.full(len(points), self.height / 2)
        if self.y is not None:
            ys = self.height * MARGIN + (self.top - points[:, self.y]) * self.down
        return [(_short(a), _short(b)) for a, b in zip(xs.tolist(), ys.tolist(), strict=True)]

    def discs(self, balls: Balls) -> list[tuple[float, float, float, float]]:
        """A ball projects to a disc of its radius, drawn as an ellipse if the two scales differ."""
        right, up = (
            balls.radii[:, self.x] * self.across,
            balls.radii[:, self.x if self.y is None else self.y] * self.down,
        )
        found = zip(self.places(balls.center), right.tolist(), up.tolist(), strict=True)
        return [(x, y, _short(a), _short(b)) for (x, y), a, b in found]


def make_animation(release: Release, names: tuple[str, ...]) -> Animation | None:
    """The animation of a release; None if it records no steps or has too many clusters."""
    frames = frames_of(release)
    k = release.n_clusters
    if len(frames) < 2 or k > MAX_CLUSTERS:
        return None
    x, y = widest_pair(release)
    view = _view(release, x, y)
    kept = [frames[i] for i in evenly_spaced(len(frames), max(MAX_SHAPES // (3 * k), 4))]
    shown = [_frame(frame, view) for frame in kept]
    tracks = [frame.centroids for frame in frames if frame.centroids is not None]
    marks = evenly_spaced(len(tracks), max(MAX_TRAIL // k, 8))
    trails = [view.places(np.array([tracks[j][i] for j in marks])) for i in range(k)] if tracks else []
    kinds = tuple(kind for kind in ("ball", "zone", "centroid") if any(frame[kind] for frame in shown))
    zones = "ball" in kinds or "zone" in kinds
    projected = " Zones are projected on these two features." if zones and len(names) > 2 else ""
    of = names[x] if y is None else f"{names[x]} (to the right) and {names[y]} (upwards)"
    zoned = [i for i, frame in enumerate(kept) if frame.zones is not None]
    only = "" if len(kept) == len(frames) else f" {len(kept)} of {len(frames)} steps are shown."
    return Animation(
        width=WIDTH,
        height=view.height,
        k=k,
        words=f"In {of}.{projected}{only}",
        kinds=kinds,
        density=_density(release, view),
        trails=[" ".join(f"{a},{b}" for a, b in trail) for trail in trails] if len(tracks) > 1 else [],
        ends=view.places(release.centroids),
        frames=shown,
        last=zoned[0] if zoned else len(shown) - 1,
    )


def widest_pair(release: Release) -> tuple[int, int | None]:
    """The two features over which the centroids spread most, as a share of the box, in their own order."""
    sides = np.asarray(release.bounds.upper) - np.asarray(release.bounds.lower)
    if len(sides) < 3:
        return 0, 1 if len(sides) == 2 else None
    spread = np.ptp(release.centroids, axis=0) / np.where(sides > 0, sides, np.inf)
    first, second = sorted(np.argsort(-spread, kind="stable")[:2].tolist())
    return int(first), int(second)


def _view(release: Release, x: int, y: int | None) -> _View:
    lower, upper = release.bounds.lower, release.bounds.upper
    wide = (upper[x] - lower[x]) or 1.0
    high = wide * 0.3 if y is None else (upper[y] - lower[y]) or 1.0
    unit = release.bounds.unit
    shape = high / wide if y is None else (high / unit[y]) / (wide / unit[x])  # as distances are, not in units
    height = float(np.clip(WIDTH * shape, 200.0, 640.0))
    across = WIDTH * (1 - 2 * MARGIN) / wide
    down = height * (1 - 2 * MARGIN) / high
    if y is None:
        down = across
    return _View(x, y, lower[x], 0.0 if y is None else upper[y], across, down, round(height, 1))


def _frame(frame: AnimationFrame, view: _View) -> dict[str, Any]:
    return {
        "words": frame.words + ".",
        "ball": None if frame.convergent is None else view.discs(frame.convergent),
        "zone": None if frame.zones is None else view.discs(frame.zones),
        "centroid": None if frame.centroids is None else view.places(frame.centroids),
    }


def _density(release: Release, view: _View) -> str | None:
    """Where the weight of all points of the synopsis lies, as a picture (PNG) of the drawing's size in a data URL."""
    points = synopsis_of(release)
    if points is None:
        return None
    from matplotlib.image import imsave

    columns, rows = BINS, max(round(BINS * view.height / WIDTH), 1)
    places = np.array(view.places(release.bounds.from_unit(points.points)))
    mass = smoothed(places, points.weights, view.height, (rows, columns))
    pixels = np.empty((rows, columns, 4))
    pixels[..., :3] = DENSITY_COLOUR
    pixels[..., 3] = 0.85 * np.sqrt(mass / (mass.max() or 1.0))
    file = io.BytesIO()
    imsave(file, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def smoothed(places: FloatArray, weights: FloatArray, height: float, shape: tuple[int, int]) -> FloatArray:
    """The density of weights (n,) at places (n, 2) of a drawing of that height, in so many rows and columns of bins.

    A point stands for a cell, and cells differ in size. Each is drawn as a bell as wide as the way to its neighbours:
    counting points in bins of one size would show where the two grids coincide, as stripes and dots.
    """
    from scipy.spatial import KDTree

    rows, columns = shape
    places, index = np.unique(places, axis=0, return_inverse=True)
    together: FloatArray = np.zeros(len(places))
    np.add.at(together, index.ravel(), weights)
    near = KDTree(places).query(places, k=min(NEIGHBOURS + 1, len(places)))[0].reshape(len(places), -1)[:, -1]
    widths = np.clip(near, WIDTH / columns, WIDTH / 16)[:, None]
    across = np.exp(-(((places[:, :1] - (np.arange(columns) + 0.5) * WIDTH / columns) / widths) ** 2) / 2)
    down = np.exp(-(((places[:, 1:] - (np.arange(rows) + 0.5) * height / rows) / widths) ** 2) / 2)
    density: FloatArray = (down * (together[:, None] / widths**2)).T @ across
    return density


def _short(value: float) -> float:
    return round(float(np.clip(value, -1e5, 1e5)), 1)
