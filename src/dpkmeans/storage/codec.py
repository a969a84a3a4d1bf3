"""Between the public parts of a result and the plain values of a JSON file. Readers check what they read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

from dpkmeans.core.bounds import Bounds
from dpkmeans.core.epsilon import Epsilon, Spend
from dpkmeans.core.guarantee import Guarantee, as_label

ARITHMETICS: tuple[Literal["exact integers"], Literal["floating point"]] = ("exact integers", "floating point")
BOUNDS: tuple[Literal["given"], Literal["from data"], Literal["estimated"]] = ("given", "from data", "estimated")

MAX_TEXT = 10_000

T = TypeVar("T", bound=str)


def guarantee_to_plain(guarantee: Guarantee, epsilon: float) -> dict[str, Any]:
    """A guarantee, with its sentence for `epsilon`."""
    return {
        "label": guarantee.label,
        "statement": guarantee.in_words(epsilon),
        "neighbours": guarantee.neighbours,
        "bounds": guarantee.bounds,
        "arithmetic": guarantee.arithmetic,
        "seeded": guarantee.seeded,
        "reasons": list(guarantee.reasons),
    }


def guarantee_from_plain(plain: dict[str, Any]) -> Guarantee:
    """A guarantee out of a file."""
    return Guarantee(
        as_label(plain["label"]),
        neighbours=text(plain["neighbours"]),
        bounds=_one_of(BOUNDS, plain["bounds"]),
        arithmetic=_one_of(ARITHMETICS, plain["arithmetic"]),
        seeded=truth(plain["seeded"]),
        reasons=tuple(map(text, plain["reasons"])),
    )


def bounds_to_plain(bounds: Bounds) -> dict[str, Any]:
    """The two corners of the box."""
    return {"lower": list(bounds.lower), "upper": list(bounds.upper)}


def bounds_from_plain(plain: dict[str, Any], guarantee: Guarantee) -> Bounds:
    """The box out of a file; the guarantee says where it came from."""
    return Bounds(
        tuple(map(number, plain["lower"])),
        tuple(map(number, plain["upper"])),
        from_data=guarantee.bounds == "from data",
    )


def spends_to_plain(spends: Iterable[Spend]) -> list[dict[str, Any]]:
    """Labels and parts in nano-epsilon."""
    return [{"label": spend.label, "nano": [part.nano for part in spend.parts]} for spend in spends]


def spends_from_plain(lines: list[dict[str, Any]]) -> tuple[Spend, ...]:
    """Spends out of a file."""
    return tuple(Spend(text(line["label"]), tuple(Epsilon(whole(nano)) for nano in line["nano"])) for line in lines)


def names_from_plain(names: list[str] | None) -> tuple[str, ...] | None:
    """Feature names out of a file."""
    return None if names is None else tuple(map(text, names))


def text(value: Any) -> str:
    """A string out of a file, of a sane length, that can be printed and written again."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise ValueError("not a text")
    value.encode("utf-8")  # half a surrogate pair is no text
    return value


def number(value: Any) -> float:
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


def whole(value: Any) -> int:
    """A whole number out of a file, from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError("not a whole number")
    return value


def truth(value: Any) -> bool:
    """True or false out of a file."""
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _one_of(known: tuple[T, ...], value: Any) -> T:
    for name in known:
        if value == name:
            return name
    raise ValueError("not one of the known values")
