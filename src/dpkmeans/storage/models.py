"""Model and transcript files: a `Release` to JSON and back. What a file claims is checked against its content."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dpkmeans.core.release import PublishedZone, Release
from dpkmeans.core.unit import ROWS_PER_PERSON
from dpkmeans.errors import BudgetError, FileError
from dpkmeans.storage import codec
from dpkmeans.storage.identity import check_digest, check_unchanged, decode_identity, encode_identity
from dpkmeans.storage.json_files import read_lines, read_versioned, write_json, write_lines

KIND = "dpkmeans model"
OPTIONAL = ("centroid", "mean")  # of a published zone
TRANSCRIPT_KIND = "dpkmeans transcript"
VERSION = 3  # 2: a schema, and weights of features; 3: another unit than a row, balls
TRANSCRIPT_VERSION = 1
MARGIN = 1e-6  # of the longest side, by which a centroid may lie outside the box: rounding


def encode_release(release: Release) -> dict[str, Any]:
    """A release as plain values."""
    certificate = release.certificate
    return {
        "identity": encode_identity(release.identity),
        "method": release.method,
        "parameters": release.parameters,
        "centroids": release.centroids.tolist(),
        "feature_names": None if release.feature_names is None else list(release.feature_names),
        "guarantee": codec.encode_guarantee(release.guarantee, release.cost),
        "bounds": codec.encode_bounds(release.bounds),
        "schema": None if release.schema is None else release.schema.to_dict(),
        "clusters": None if release.schema is None else [_readable(cluster) for cluster in release.describe()],
        **codec.encode_promise(release.epsilon_promised, release.delta, release.rho_promised),
        "epsilon_spent": release.epsilon_spent,
        "rho_spent": release.rho_spent,
        "spends": codec.encode_spends(release.spends),
        "n_passes": release.n_passes,
        "n_iter": release.n_iter,
        "converged": release.converged,
        "sizes": None if release.sizes is None else list(release.sizes),
        "transcript": list(_encode_zones(release.transcript)),
        "certificate": None if certificate is None else codec.encode_certificate(certificate),
    }


def decode_release(content: dict[str, Any], version: int | None = None) -> Release:
    """A release out of plain values; checks shapes, that every number is finite, and what it claims.

    `version` is that of the file they come from.
    """
    try:
        guarantee = codec.decode_guarantee(content["guarantee"])
        bounds = codec.decode_bounds(content["bounds"], guarantee)
        k, sizes, certificate = len(content["centroids"]), content["sizes"], content["certificate"]
        names = codec.decode_names(content["feature_names"])
        release = Release(
            centroids=codec.read_matrix(content["centroids"], (k, bounds.n_features)),
            method=codec.read_text(content["method"]),
            guarantee=guarantee,
            bounds=bounds,
            spends=codec.decode_spends(content["spends"]),
            n_passes=codec.read_int(content["n_passes"]),
            n_iter=codec.read_int(content["n_iter"]),
            converged=None if content["converged"] is None else codec.read_bool(content["converged"]),
            transcript=tuple(map(_decode_zone, content["transcript"])),
            parameters=dict(content["parameters"]),
            feature_names=names,
            schema=codec.decode_schema(content.get("schema"), bounds, names),
            sizes=None if sizes is None else tuple(map(codec.read_float, sizes)),
            certificate=None if certificate is None else codec.decode_certificate(certificate, bounds, k),
            identity=decode_identity(content),
            **codec.decode_promise(content),
        )
    except codec.DAMAGED as error:
        raise FileError(f"The model's content is damaged ({type(error).__name__}). Restore it from a copy.") from None
    _check_lengths(release)
    _check_claims(release)
    check_digest(content, release.identity, version)
    return release


def save_release(path: str | PathLike[str], release: Release) -> None:
    """Write a model file."""
    check_unchanged(release)
    version = release.file_version
    write_json(path, KIND, version, release.to_dict())


def load_release(path: str | Path) -> Release:
    """Read a model file."""
    return decode_release(*read_versioned(path, KIND, VERSION))


def save_transcript(path: str | PathLike[str], transcript: tuple[PublishedZone, ...]) -> None:
    """Write a transcript: a line that says what the file is, then one JSON object per zone."""
    write_lines(path, TRANSCRIPT_KIND, TRANSCRIPT_VERSION, _encode_zones(transcript))


def read_transcript(path: str | Path) -> tuple[PublishedZone, ...]:
    """Read a transcript file; checks that its lines fit together and every number is finite."""
    lines = read_lines(path, TRANSCRIPT_KIND, TRANSCRIPT_VERSION)
    try:
        zones = tuple(map(_decode_zone, lines))
    except codec.DAMAGED:
        raise FileError("The transcript's content is damaged. Restore it from a copy.") from None
    if any(len(zone.center) != len(zones[0].center) or zone.radius < 0 for zone in zones):
        raise FileError("The transcript's zones are inconsistent. Restore it from a copy.")
    return zones


def _check_lengths(release: Release) -> None:
    k, d = release.centroids.shape
    fits = k > 0 and len(release.names) == d and len(release.sizes or release.centroids) == k
    for zone in release.transcript:
        places = (zone.center, zone.centroid or zone.center, zone.mean or zone.center)
        fits &= all(len(place) == d for place in places) and zone.cluster < k
    if not fits:
        raise FileError("The model's names, sizes or transcript are damaged. Restore it from a copy.")


def _check_claims(release: Release) -> None:
    """Refuse what no run of a proved method gives. A checksum does not tell: anyone can make one that matches."""
    guarantee, bounds = release.guarantee, release.bounds
    if guarantee.label != "proved":
        return
    margin = bounds.unit * MARGIN
    lower, upper = np.array(bounds.lower) - margin, np.array(bounds.upper) + margin
    inside = bool(((lower <= release.centroids) & (release.centroids <= upper)).all())
    exact = not guarantee.seeded and guarantee.bounds != "from data" and guarantee.arithmetic == "exact integers"
    try:
        within = bool(release.spends) and release.cost.within and _booked_per_unit(release)
    except BudgetError:
        within = False
    if not (inside and exact and within):
        raise FileError("The model says 'proved', and its content contradicts that. Do not trust this file.")


def _booked_per_unit(release: Release) -> bool:
    """A unit of m records is booked m-fold in epsilon and m²-fold in rho, but for the choice of m itself."""
    m = release.guarantee.unit.records
    spends = [spend for spend in release.spends if spend.label != ROWS_PER_PERSON]
    pure = all(part.nano % m == 0 for spend in spends for part in spend.parts)
    return pure and all(spend.rho is None or spend.rho.femto % m**2 == 0 for spend in spends)


def _readable(cluster: dict[str, Any]) -> dict[str, Any]:
    """A described centroid with dates as text; for readers of the file, not read again."""
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in cluster.items()}


def _encode_zones(transcript: tuple[PublishedZone, ...]) -> Iterator[dict[str, Any]]:
    for zone in transcript:
        line: dict[str, Any] = {
            "iteration": zone.iteration,
            "cluster": zone.cluster,
            "center": list(zone.center),
            "radius": zone.radius,
            "score": zone.score,
            "step_epsilon": zone.step_epsilon,
        }
        line |= {name: list(value) for name in OPTIONAL if (value := getattr(zone, name)) is not None}
        yield line


def _decode_zone(line: dict[str, Any]) -> PublishedZone:
    centroid, mean = (line.get(name) for name in OPTIONAL)
    return PublishedZone(
        codec.read_int(line["iteration"]),
        codec.read_int(line["cluster"]),
        tuple(map(codec.read_float, line["center"])),
        codec.read_float(line["radius"]),
        codec.read_text(line["score"]),
        codec.read_float(line["step_epsilon"]),
        None if centroid is None else tuple(map(codec.read_float, centroid)),
        None if mean is None else tuple(map(codec.read_float, mean)),
    )
