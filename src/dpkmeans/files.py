"""JSON files with a kind, a version and a checksum, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from dpkmeans.errors import FileError

LARGEST = 512 * 2**20


def write_json(path: str | Path, kind: str, version: int, content: dict[str, Any]) -> None:
    """Write `content` to a temporary file beside `path`, sync it, and rename it over `path`."""
    body = _canonical(content)
    text = json.dumps(
        {"kind": kind, "version": version, "sha256": hashlib.sha256(body).hexdigest(), "content": content},
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
        if source.stat().st_size > LARGEST:
            raise FileError(f"{source} is larger than {LARGEST >> 20} MiB; it is not a {kind} file of ours.")
        text = source.read_text(encoding="utf-8")
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot read {source}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise FileError(f"{source} is not a {kind} file: it is not text.") from None
    try:
        wrapper = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise FileError(f"{source} is not a {kind} file, or it is damaged: it is not JSON.") from None
    if not isinstance(wrapper, dict) or wrapper.get("kind") != kind or not isinstance(wrapper.get("content"), dict):
        raise FileError(f"{source} is not a {kind} file. Give a file that dpkmeans wrote.")
    if not isinstance(wrapper.get("version"), int) or wrapper["version"] > version:
        raise FileError(f"{source} was written by a newer version of dpkmeans. Update dpkmeans to read it.")
    content: dict[str, Any] = wrapper["content"]
    if hashlib.sha256(_canonical(content)).hexdigest() != wrapper.get("sha256"):
        raise FileError(f"{source} is damaged or was changed: its checksum does not match. Restore it or fit again.")
    return content


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
