"""JSON files with a kind, a version and a checksum, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from dpkmeans.errors import FileError

LARGEST = 512 * 2**20


def write_json(path: str | Path, kind: str, version: int, content: dict[str, Any]) -> None:
    """Write `content` to a temporary file beside `path`, sync it, and rename it over `path`."""
    text = json.dumps(
        {"kind": kind, "version": version, "sha256": _checksum(content), "content": content},
        allow_nan=False,
        indent=1,
    )
    write_text(path, text + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Write `text` so that an interruption leaves the old file, or none, but never half of one."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror or error}. The file was left as it was.") from None


def read_json(path: str | Path, kind: str, version: int) -> dict[str, Any]:
    """The content of a file that `write_json` wrote; anything else is an error that says what is wrong."""
    source = Path(path)
    try:
        with source.open("rb") as file:  # a device or a pipe has no size to ask for
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or error}.") from None
    if len(raw) > LARGEST:
        raise FileError(f"{source} is larger than {LARGEST >> 20} MiB; it is not a {kind} file of ours.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{source} is not a {kind} file: it is not text.") from None
    try:
        wrapper = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        raise FileError(f"{source} is not a {kind} file, or it is damaged: it is not JSON.") from None
    if not isinstance(wrapper, dict) or wrapper.get("kind") != kind or not isinstance(wrapper.get("content"), dict):
        raise FileError(f"{source} is not a {kind} file. Give a file that dpkmeans wrote.")
    found = wrapper.get("version")
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise FileError(f"{source} is damaged: it names no version. Restore it or fit again.")
    if found > version:
        raise FileError(f"{source} was written by a newer version of dpkmeans. Update dpkmeans to read it.")
    content: dict[str, Any] = wrapper["content"]
    checksum = _checksum(content)
    if checksum is None or checksum != wrapper.get("sha256"):
        raise FileError(f"{source} is damaged or was changed: its checksum does not match. Restore it or fit again.")
    return content


def _checksum(content: dict[str, Any]) -> str | None:
    try:
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    except RecursionError:  # deeper than anything that was written here
        return None
    return hashlib.sha256(canonical.encode()).hexdigest()


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
