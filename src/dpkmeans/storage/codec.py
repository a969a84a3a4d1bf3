"""Between public values and the plain values of a JSON file. Decoders check what they read.

What is not as it should be raises one of `DAMAGED`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import numpy as np

from dpkmeans._typing import FloatArray
from dpkmeans.core.ball import Ball
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.certificate import VERSION, Certificate, Correction, RecentringStep
from dpkmeans.core.cost import Cost, Promised
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.guarantee import Guarantee, as_label
from dpkmeans.core.privacy import checked_delta
from dpkmeans.core.rho import Rho
from dpkmeans.core.schema import Schema
from dpkmeans.core.unit import KEEPS, MISSING_IDS, Person, Row, Rows, Unit

DAMAGED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)

ARITHMETICS: tuple[Literal["exact integers"], Literal["floating point"]] = ("exact integers", "floating point")
BOUNDS: tuple[Literal["given"], Literal["from data"], Literal["estimated"]] = ("given", "from data", "estimated")

CORRECTION = "asked", "found", "found_bound"  # its names in a file, from version 2 of a certificate on
MAX_TEXT = 10_000  # characters
MAX_REACH = 1e3  # of a step on the records, in unit coordinates; none comes near it
MARGIN = 1e-9  # by which a point may lie outside its box, in unit coordinates: rounding

T = TypeVar("T", bound=str)


def encode_guarantee(guarantee: Guarantee, cost: Cost) -> dict[str, Any]:
    """A guarantee, with its sentence for what was spent."""
    return {
        "label": guarantee.label,
        "statement": cost.statement(guarantee),
        "neighbours": guarantee.neighbours,
        "unit": encode_unit(guarantee.unit),
        "bounds": guarantee.bounds,
        "arithmetic": guarantee.arithmetic,
        "seeded": guarantee.seeded,
        "reasons": list(guarantee.reasons),
    }


def decode_guarantee(plain: dict[str, Any]) -> Guarantee:
    """A guarantee out of a file."""
    return Guarantee(
        as_label(plain["label"]),
        bounds=_one_of(BOUNDS, plain["bounds"]),
        arithmetic=_one_of(ARITHMETICS, plain["arithmetic"]),
        seeded=read_bool(plain["seeded"]),
        reasons=tuple(map(read_text, plain["reasons"])),
        unit=decode_unit(plain.get("unit")),
    )


def file_version(guarantee: Guarantee, bounds: Bounds, cost: Cost) -> int:
    """The version of a model or synopsis file: the oldest that reads it rightly.

    Before 3, a unit was always a row, bounds were always a box, and promises and spends always in pure epsilon.
    """
    pure = not cost.in_rho and (cost.privacy is None or cost.privacy.kind == "epsilon")
    return 2 if pure and guarantee.unit == Row() and bounds.ball is None else 3


def encode_promise(epsilon: float | None, delta: float | None, rho: float | None) -> dict[str, Any]:
    """What was promised."""
    return {"epsilon_promised": epsilon, "delta": delta, "rho_promised": rho}


def decode_promise(content: dict[str, Any]) -> Promised:
    """What was promised, out of a file. Older files know pure epsilon alone."""
    epsilon, delta, rho = content["epsilon_promised"], content.get("delta"), content.get("rho_promised")
    if delta is not None and epsilon is None:
        raise ValueError("a delta without an epsilon")
    return {
        "epsilon_promised": None if epsilon is None else float(Epsilon.of(read_float(epsilon))),
        "delta": None if delta is None else checked_delta(read_float(delta)),
        "rho_promised": None if rho is None else float(Rho.of(read_float(rho))),
    }


def encode_unit(unit: Unit) -> dict[str, Any]:
    """A privacy unit as plain values."""
    if isinstance(unit, Person):
        options = {"column": unit.column, "keep": unit.keep, "missing_ids": unit.missing_ids}
        return {"kind": "person", "at_most": unit.at_most, **options}
    return {"kind": "rows", "at_most": unit.at_most} if isinstance(unit, Rows) else {"kind": "row"}


def decode_unit(plain: dict[str, Any] | None) -> Unit:
    """A privacy unit out of a file. Older files have none: their unit is a row."""
    kind = _one_of(("row", "rows", "person"), "row" if plain is None else plain["kind"])
    if plain is None or kind == "row":
        return Row()
    if kind == "rows":
        return Rows(read_int(plain["at_most"]))
    at_most = None if plain["at_most"] is None else read_int(plain["at_most"])
    return Person(
        read_text(plain["column"]), at_most, _one_of(KEEPS, plain["keep"]), _one_of(MISSING_IDS, plain["missing_ids"])
    )


def encode_bounds(bounds: Bounds) -> dict[str, Any]:
    """The two corners of the box; the weights of the features and the ball, where there are some."""
    plain: dict[str, Any] = {"lower": list(bounds.lower), "upper": list(bounds.upper)}
    if bounds.weights is not None:
        plain["weights"] = list(bounds.weights)
    if bounds.ball is not None:
        center = list(bounds.ball.center_of(bounds.n_features))
        plain["ball"] = {"center": center, "radius": bounds.ball.radius, "normalize": bounds.ball.normalize}
    return plain


def decode_bounds(plain: dict[str, Any], guarantee: Guarantee) -> Bounds:
    """The box out of a file; the guarantee says where it came from."""
    return Bounds(
        tuple(map(read_float, plain["lower"])),
        tuple(map(read_float, plain["upper"])),
        from_data=guarantee.bounds == "from data",
        weights=tuple(map(read_float, plain["weights"])) if "weights" in plain else None,
        ball=_decode_ball(plain["ball"]) if "ball" in plain else None,
    )


def _decode_ball(plain: dict[str, Any]) -> Ball:
    center = tuple(map(read_float, plain["center"]))
    return Ball(center, read_float(plain["radius"]), read_bool(plain["normalize"]))


def encode_spends(spends: Iterable[Spend]) -> list[dict[str, Any]]:
    """Labels, and parts in nano-epsilon or a rho in femtos."""
    return [
        {"label": spend.label, "nano": [part.nano for part in spend.parts]}
        if spend.rho is None
        else {"label": spend.label, "femto": spend.rho.femto}
        for spend in spends
    ]


def decode_spends(lines: list[dict[str, Any]]) -> tuple[Spend, ...]:
    """Spends out of a file."""
    return tuple(
        Spend(read_text(line["label"]), rho=Rho(read_int(line["femto"])))
        if "femto" in line
        else Spend(read_text(line["label"]), tuple(Epsilon(read_int(nano)) for nano in line["nano"]))
        for line in lines
    )


def decode_names(names: list[str] | None) -> tuple[str, ...] | None:
    """Feature names out of a file."""
    return None if names is None else tuple(map(read_text, names))


def decode_schema(plain: Any, bounds: Bounds, names: tuple[str, ...] | None) -> Schema | None:
    """A schema out of a file; it must give the names and the bounds beside it."""
    if plain is None:
        return None
    schema = Schema.from_dict(plain)
    ends = zip(bounds.lower, bounds.upper, strict=True)
    known = [side is None or side == end for side, end in zip(schema.sides, ends, strict=True)]
    if schema.coordinates != names or not all(known):
        raise ValueError("a schema that does not fit the features")
    return schema


def encode_certificate(certificate: Certificate) -> dict[str, Any]:
    """A certificate as nested lists of numbers."""
    lloyd_start, correction, step = certificate.lloyd_start, certificate.correction, certificate.step
    found = () if correction is None else (correction.centroids, correction.means, correction.bound)
    return {
        "version": certificate.version,
        "points": certificate.points.tolist(),
        "weights": certificate.weights.tolist(),
        **{name: matrix.tolist() for name, matrix in zip(CORRECTION, found, strict=bool(found))},
        "start": certificate.start.tolist(),
        "lloyd_start": None if lloyd_start is None else lloyd_start.tolist(),
        "fixed_point": certificate.fixed_point.tolist(),
        "sizes": certificate.sizes.tolist(),
        "zone_costs": list(certificate.zone_costs),
        "lloyd_costs": list(certificate.lloyd_costs),
        "moved_to": None if step is None else step.moved_to.tolist(),
        "move_bound": None if step is None else step.bound.tolist(),
        "follow": None if step is None else step.extrapolation,
        "apart": certificate.apart,
    }


def decode_certificate(plain: dict[str, Any], bounds: Bounds, n_clusters: int) -> Certificate:
    """A certificate out of a file, with the shapes of `bounds` and `n_clusters`: compiled loops check no shapes."""
    version = read_int(plain.get("version", 1))
    if not 1 <= version <= VERSION:
        raise ValueError("a certificate of a newer version")
    shape = n_clusters, bounds.n_features
    points, weights = decode_points(plain, bounds)
    correction = None if version == 1 else _decode_correction(plain, bounds)
    step = None
    if plain["move_bound"] is not None:
        moved_to, bound = read_matrix(plain["moved_to"], shape), read_matrix(plain["move_bound"], shape)
        step = RecentringStep(moved_to, bound, read_float(plain["follow"]))
        if not _is_reach(bound) or not 0 <= step.extrapolation <= 1 or correction is not None:
            raise ValueError("a step that no fit takes")
    certificate = Certificate(
        points,
        weights,
        start=read_matrix(plain["start"], shape),
        lloyd_start=None if plain["lloyd_start"] is None else read_matrix(plain["lloyd_start"], shape),
        fixed_point=read_matrix(plain["fixed_point"], shape),
        sizes=np.array([read_float(size) for size in plain["sizes"]]),
        zone_costs=tuple(map(read_float, plain["zone_costs"])),
        lloyd_costs=tuple(map(read_float, plain["lloyd_costs"])),
        step=step,
        apart=read_float(plain["apart"]),
        correction=correction,
    )
    if len(certificate.sizes) != n_clusters or len(certificate.lloyd_costs) < 2:
        raise ValueError("sizes or costs that no fit has")
    return certificate


def _decode_correction(plain: dict[str, Any], bounds: Bounds) -> Correction:
    shape = len(plain["found"]), bounds.n_features
    correction = Correction(*(read_matrix(plain[name], shape) for name in CORRECTION))
    places = np.concatenate([correction.centroids, correction.means])
    if shape[0] == 0 or not _is_reach(correction.bound) or not _is_inside(places, bounds):
        raise ValueError("a correction that no fit makes")
    return correction


def _is_reach(bound: FloatArray) -> bool:
    """Whether a step may have so wide a bound: finite, and not absurd."""
    return bool(((bound >= 0) & (bound <= MAX_REACH)).all())


def _is_inside(places: FloatArray, bounds: Bounds) -> bool:
    return bool(((places >= -MARGIN) & (places <= bounds.unit_box + MARGIN)).all())


def decode_points(plain: dict[str, Any], bounds: Bounds) -> tuple[FloatArray, FloatArray]:
    """The `points` (m, d), inside the box, and the positive `weights` (m,) of a synopsis."""
    weights = np.array([read_float(weight) for weight in plain["weights"]], np.float64)
    points = read_matrix(plain["points"], (len(weights), bounds.n_features))
    if not _is_inside(points, bounds):
        raise ValueError("a point outside the bounds")
    if len(weights) == 0 or not (weights > 0).all():
        raise ValueError("no points, or weights that are not positive")
    return points, weights


def read_matrix(rows: Any, shape: tuple[int, int]) -> FloatArray:
    """Finite numbers of this very shape out of a file."""
    found = np.array([[read_float(value) for value in row] for row in rows], np.float64)
    if found.shape != shape:
        raise ValueError("wrong shape")
    return found


def read_text(value: Any) -> str:
    """A string out of a file, of a sane length, that can be printed and written again."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError("not a text")
    value.encode("utf-8")  # half a surrogate pair is no text
    return value


def read_float(value: Any) -> float:
    """A finite number out of a file."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError("not a finite number")
    return found


def read_int(value: Any) -> int:
    """A whole number out of a file, from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError("not a whole number")
    return value


def read_bool(value: Any) -> bool:
    """True or false out of a file."""
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _one_of(known: tuple[T, ...], value: Any) -> T:
    for name in known:
        if value == name:
            return name
    raise ValueError("not one of the known values")
