"""The identity of a release: its digest over canonical bytes, made when it is released and checked when it is read."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dpkmeans import __version__
from dpkmeans.core.cost import Cost
from dpkmeans.core.guarantee import Guarantee
from dpkmeans.core.identity import Identity, Signature
from dpkmeans.core.privacy import Privacy
from dpkmeans.errors import FileError
from dpkmeans.storage import codec
from dpkmeans.storage.json_files import checksum
from dpkmeans.storage.keys import SigningKey

OUTSIDE = ("digest", "signature")
"""The fields of an identity that its digest does not cover: itself, and what is made from it."""


class Identifiable(Protocol):
    """A release, a synopsis or an answer, as far as its identity needs it. Its format has a version."""

    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def identity(self) -> Identity | None: ...
    @property
    def file_version(self) -> int: ...
    def to_dict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=Identifiable)


def identified(
    release: R,
    *,
    dataset: str | None = None,
    fit: str | None = None,
    head: str | None = None,
    cap: Privacy | None = None,
    time: bool = True,
) -> R:
    """The same with an identity; with a `dataset`, also its entry in a durable ledger and the cap there. Unsigned.

    A seeded release gets no time: it is the same to the last bit whenever it is made.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds") if time and not release.guarantee.seeded else None
    return _sealed(release, Identity("", __version__, release.file_version, now, dataset, fit, head, cap=cap))


def identified_by_source(release: R, source: Identity) -> R:
    """The same with an identity that names the synopsis it was computed from, and what that names in a ledger.

    It gets no time: whoever has the synopsis can compute it again.
    """
    known = None, source.dataset, source.fit, source.head
    origin = source.made_from or source.digest
    return _sealed(release, Identity("", __version__, release.file_version, *known, made_from=origin, cap=source.cap))


def _sealed(release: R, identity: Identity) -> R:
    unsealed: R = replace(release, identity=identity)  # type: ignore[type-var]
    sealed: R = replace(release, identity=replace(identity, digest=digest_of(unsealed.to_dict())))  # type: ignore[type-var]
    return sealed


def signed(release: R, key: SigningKey | str | Path) -> R:
    """The same, signed with a private key, or with that in a file. What has no identity gets one first."""
    private = key if isinstance(key, SigningKey) else SigningKey.read(key)
    known = identified(release) if release.identity is None else release
    check_unchanged(known)
    assert known.identity is not None
    made: R = replace(known, identity=private.signed(known.identity))  # type: ignore[type-var]
    return made


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical bytes of a file's content: JSON with sorted keys, no spaces, ASCII.

    Of the identity, the digest and the signature are left out.
    """
    identity = {name: value for name, value in content["identity"].items() if name not in OUTSIDE}
    return checksum({**content, "identity": identity})


def encode_identity(identity: Identity | None) -> dict[str, Any] | None:
    """An identity as plain values."""
    if identity is None:
        return None
    plain = asdict(identity)
    plain["cap"] = None if identity.cap is None else _encode_cap(identity.cap)
    for name in ("made_from", "cap"):  # without them, as in files of older versions
        if plain[name] is None:
            del plain[name]
    return plain


def decode_identity(content: dict[str, Any]) -> Identity | None:
    """The identity in the content of a file; older files have none."""
    plain = content.get("identity")
    if plain is None:
        return None
    text = {name: None if plain[name] is None else codec.read_text(plain[name]) for name in ("time", "dataset")}
    return Identity(
        digest=_hexadecimal(plain["digest"], 64),
        version=codec.read_text(plain["version"]),
        schema=codec.read_int(plain["schema"]),
        fit=None if plain["fit"] is None else codec.read_text(plain["fit"]),
        head=None if plain["head"] is None else _hexadecimal(plain["head"], 64),
        signature=None if plain["signature"] is None else _decode_signature(plain["signature"]),
        made_from=None if plain.get("made_from") is None else _hexadecimal(plain["made_from"], 64),
        cap=None if plain.get("cap") is None else _decode_cap(plain["cap"]),
        **text,
    )


def check_digest(content: dict[str, Any], identity: Identity | None, version: int | None = None) -> None:
    """Refuse content that is not what its digest says, or that came in a file of another `version` than it says."""
    if identity is None:
        return
    if digest_of(content) != identity.digest:
        raise FileError("The content does not match its digest: it was changed after it was released. Do not trust it.")
    if version not in (None, identity.schema):
        raise FileError(f"The file says version {version}, and its content {identity.schema}: it was changed.")


def check_unchanged(release: Identifiable) -> None:
    """Refuse to save what was changed since it was released: its identity is that of another."""
    if release.identity is not None and digest_of(release.to_dict()) != release.identity.digest:
        raise FileError(
            "this release was changed since it was made, and its identity no longer fits. "
            "Save the one that was made, or one without: dataclasses.replace(release, identity=None)."
        )


def _encode_cap(cap: Privacy) -> dict[str, float]:
    fields = {"epsilon": cap.epsilon, "delta": cap.delta, "rho": cap.rho}
    return {name: float(value) for name, value in fields.items() if value is not None}


def _decode_cap(plain: dict[str, Any]) -> Privacy | None:
    epsilon, delta, rho = (
        None if plain.get(name) is None else codec.read_float(plain[name]) for name in ("epsilon", "delta", "rho")
    )
    return Cost.of((), epsilon, delta, rho).privacy


def _decode_signature(plain: dict[str, Any]) -> Signature:
    return Signature(_hexadecimal(plain["key"], 64), _hexadecimal(plain["value"], 128))


def _hexadecimal(value: Any, digits: int) -> str:
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{digits}}}", value):
        raise ValueError("not hexadecimal")
    return value
