"""JSON files with a kind, a version and a checksum, written whole or not at all, and read with limits.

A file may be untrusted, so reading builds plain values only, and no more of them than the limits allow.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from dpkmeans.errors import FileError
from dpkmeans.storage.outputs import Output, opened_output

MAX_BYTES = 512 * 2**20
MAX_DEPTH = 16  # lists and objects inside each other
MAX_LISTS = 2**22  # lists and objects in all
MAX_VALUES = 2**25
_TAKEN_BY = {"dpkmeans model": "show, report or predict", "dpkmeans synopsis": "show or explore"}


def write_json(path: str | PathLike[str], kind: str, version: int, content: dict[str, Any]) -> None:
    """Write `content` to a temporary file beside `path`, sync it, and rename it over `path`."""
    text = json.dumps({**_head(kind, version, content), "content": content}, allow_nan=False, indent=1)
    _write_readable(path, kind, text + "\n")


def write_lines(path: str | PathLike[str], kind: str, version: int, lines: Iterable[dict[str, Any]]) -> None:
    """The same with a line for each of `lines`, after a first line that says what the file is."""
    content = list(lines)
    head = {**_head(kind, version, content), "lines": len(content)}
    _write_readable(path, kind, "".join(json.dumps(line, allow_nan=False) + "\n" for line in (head, *content)))


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write `text` so that an interruption leaves the old file, or none, but never half of one."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise FileError(f"cannot write {path}: a name in it is not valid text. Rename that column.") from None
    write_bytes(path, data)


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write `data` in the same way."""
    if isinstance(path, Output):
        path.write(data)
        return
    with opened_output(path) as output:
        output.write(data)


def read_json(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """The content of a file that `write_json` wrote; anything else is an error that says what is wrong."""
    return read_versioned(path, kind, version)[0]


def is_of_kind(path: str | Path, kind: str) -> bool:
    """Whether a file begins as one of this kind does. Nothing else of it is read, or checked."""
    try:
        if not Path(path).is_file():  # a pipe would wait for ever
            return False
        with Path(path).open("rb") as file:
            return bool(re.match(rf'\s*{{\s*"kind":\s*"{re.escape(kind)}"'.encode(), file.read(200)))
    except (OSError, ValueError):
        return False


def read_versioned(path: str | Path, kind: str, version: int) -> tuple[dict[str, Any], int]:
    """The same, and the version that the file says it has."""
    source = Path(path)
    wrapper = _parse(source, kind, _read(source, kind))
    content = wrapper.get("content") if isinstance(wrapper, dict) else None
    if not isinstance(content, dict):
        raise _foreign(source, kind)
    _check_head(source, kind, version, wrapper, content)
    return content, wrapper["version"]


def read_lines(path: str | Path, kind: str, version: int) -> list[dict[str, Any]]:
    """The lines of a file that `write_lines` wrote; anything else is an error that says what is wrong."""
    source = Path(path)
    first, *rest = _read(source, kind).split(b"\n")
    head = _parse(source, kind, first)
    if not isinstance(head, dict):
        raise _foreign(source, kind)
    if rest and not rest[-1]:
        rest.pop()
    content = [_parse(source, kind, line) for line in rest]
    _check_head(source, kind, version, head, content)
    if not all(isinstance(line, dict) for line in content):
        raise _foreign(source, kind)
    return content


def _head(kind: str, version: int, content: Any) -> dict[str, Any]:
    return {"kind": kind, "version": version, "sha256": checksum(content)}


def _check_head(source: Path, kind: str, version: int, head: dict[str, Any], content: Any) -> None:
    if head.get("kind") != kind:
        raise _foreign(source, kind, head.get("kind"))
    found = head.get("version")
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise FileError(f"{source} is damaged: it names no version. Restore it from a copy.")
    if found > version:
        raise FileError(f"{source} was written by a newer version of dpkmeans. Update dpkmeans to read it.")
    if checksum(content) != head.get("sha256"):
        raise FileError(f"{source} is damaged or was changed: its checksum does not match. Restore it from a copy.")


def _write_readable(path: str | PathLike[str], kind: str, text: str) -> None:
    """Write a text that `read_json` or `read_lines` will take back."""
    if too_large(text.encode("utf-8")):
        raise FileError(f"this {kind} file would be too large to be read again. Release fewer clusters or steps.")
    write_text(path, text)


def too_large(raw: bytes) -> bool:
    """Whether there are more bytes, lists or values in a JSON text than this package writes. Counts, parses nothing."""
    return len(raw) > MAX_BYTES or raw.count(b"[") + raw.count(b"{") > MAX_LISTS or raw.count(b",") >= MAX_VALUES


def _read(source: Path, kind: str) -> bytes:
    try:
        if not stat.S_ISREG(source.stat().st_mode):  # a pipe would wait for ever, a device may never end
            raise FileError(f"cannot read {source}: it is a folder, a pipe or a device. Give a {kind} file.")
        with source.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise FileError(f"cannot read {source}: {why}. Check the path.") from None
    if too_large(raw):
        raise FileError(f"{source} is larger than any {kind} file that this package writes; it was not read.")
    return raw


def _parse(source: Path, kind: str, raw: bytes) -> Any:
    try:
        value = json.loads(
            raw.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique
        )
        deep = depth(value) > MAX_DEPTH
    except UnicodeDecodeError:
        raise FileError(f"{source} is not a {kind} file: it is not text.") from None
    except _Twice:
        raise FileError(
            f"{source} is damaged: it has a duplicate key. Give a {kind} file that dpkmeans wrote."
        ) from None
    except (ValueError, RecursionError):
        raise FileError(
            f"{source} is not a {kind} file, or it is damaged: it is not JSON. Give one that dpkmeans wrote."
        ) from None
    if deep:
        raise _foreign(source, kind)
    return value


def depth(value: Any) -> int:
    """How many lists and objects lie inside each other."""
    deepest, level = 0, [value]
    while level := [v for v in level if isinstance(v, list | dict)]:
        deepest += 1
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v)]
    return deepest


def _foreign(source: Path, kind: str, found: Any = None) -> FileError:
    if isinstance(found, str) and found in _TAKEN_BY:
        return FileError(f"{source} is a {found} file, not a {kind} file. Read it with dpkmeans {_TAKEN_BY[found]}.")
    return FileError(f"{source} is not a {kind} file. Give a file that dpkmeans wrote.")


def checksum(content: Any) -> str:
    """SHA-256 of the canonical bytes of a content: JSON with sorted keys, without spaces, in ASCII."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


class _Twice(ValueError):
    """An object has a duplicate key."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with no key twice: readers differ in which of the two they believe."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice
    return found


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
