"""What is fuzzed: every reader of untrusted bytes. A target swallows typed errors, and no others."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpkmeans.cli.inputs import parse_bounds, sides
from dpkmeans.core.bounds import Bounds
from dpkmeans.core.release import Release
from dpkmeans.core.schema import Schema
from dpkmeans.errors import DPKMeansError
from dpkmeans.privacy.durable.ledger import DurableLedger
from dpkmeans.storage.models import read_transcript
from dpkmeans.synopsis.synopsis import Synopsis

Target = Callable[[bytes], bool]

WORDS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"[[[[", b"1e99")

WEIRD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, 10**400, -(10**30), 0.5, -0.0, 1e308, -1e308, 5e-324, 1e-300, "", "x", "NaN",
    "1e999", "\ud800", "\x00\x1b[2J", "proved", "none", "x" * 20_000, [], {}, [[]], [{}], [None], [0], ["a"], {"a": 1},
    [[1.0], [2.0, 3.0]],
)  # fmt: skip


def _in_file(data: bytes, suffix: str) -> Path:
    folder = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    path = folder / f"dpkmeans-fuzz-{os.getpid()}{suffix}"
    path.write_bytes(data)
    return path


def _quietly(read: Callable[[Path], None], data: bytes, suffix: str) -> bool:
    """Whether the file was accepted. Errors that are not typed pass through."""
    path = _in_file(data, suffix)
    try:
        read(path)
    except DPKMeansError:
        return False
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{path}{end}").unlink(missing_ok=True)
    return True


def model(data: bytes) -> bool:
    """A model file: what is taken can be shown, written and used."""

    def read(path: Path) -> None:
        release = Release.load(path)
        json.dumps(release.to_dict(), allow_nan=False)
        release.summary().encode("utf-8")
        release.bounds.unit_of(release.centroids)

    return _quietly(read, data, ".json")


def transcript(data: bytes) -> bool:
    """A transcript file."""

    def read(path: Path) -> None:
        read_transcript(path)

    return _quietly(read, data, ".jsonl")


def synopsis(data: bytes) -> bool:
    """A synopsis file."""

    def read(path: Path) -> None:
        found = Synopsis.load(path)
        assert found.weights.min() > 0
        json.dumps(found.points.tolist(), allow_nan=False)

    return _quietly(read, data, ".json")


def ledger(data: bytes) -> bool:
    """A ledger file: it can be looked at, checked and spent from, or refuses."""

    def read(path: Path) -> None:
        store = DurableLedger(path, analyst="fuzz", patience=0.05)
        try:
            store.datasets()
            store.verify()
            store.entries()
            store.set_cap("visits", 2.0)
        finally:
            store.close()

    return _quietly(read, data, ".db")


def bounds(data: bytes) -> bool:
    """The text of --bounds."""
    try:
        pairs = parse_bounds(data.decode("utf-8", "replace"))
        if isinstance(pairs, list):
            box = Bounds.of(sides(pairs), len(pairs))
            assert (box.side >= 0).all()
        elif isinstance(pairs, dict):
            assert Schema.of(pairs).bounds().n_features == len(pairs)
    except DPKMeansError:
        return False
    return True


TARGETS: dict[str, Target] = {
    "model": model,
    "synopsis": synopsis,
    "transcript": transcript,
    "ledger": ledger,
    "bounds": bounds,
}


# --- mutations --------------------------------------------------------------------------------------


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, cut, repeat, insert or overwrite, once to a few times."""
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place = rng.randrange(len(raw) + 1)
        length = rng.choice((1, 2, 8, 64, 4096))
        what = rng.randrange(6)
        if what == 0 and raw:
            raw[place % len(raw)] ^= 1 << rng.randrange(8)
        elif what == 1:
            del raw[place:]
        elif what == 2:
            del raw[place : place + length]
        elif what == 3:
            raw[place:place] = raw[place : place + length]
        elif what == 4:
            raw[place:place] = rng.randbytes(min(length, 64))
        else:
            raw[place : place + 4] = rng.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"[[[[", b"1e99")
            )
    return bytes(raw)


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """Change values inside the content, and make the checksum match again, as a forger would."""
    wrapper = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(wrapper["content"], rng)
    return json.dumps({**wrapper, "sha256": _checksum(wrapper["content"])}).encode()


def mutate_lines(data: bytes, rng: random.Random) -> bytes:
    """The same for a file of lines."""
    head, *content = [json.loads(line) for line in data.splitlines()]
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(content, rng)
    lines = [{**head, "sha256": _checksum(content)}, *content]
    return "\n".join(json.dumps(line) for line in lines).encode()


def _checksum(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _change(content: Any, rng: random.Random) -> None:
    """Replace, remove, repeat or wrap one value somewhere inside."""
    node = content
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.2:
            break
        node = node[key]
    what = rng.randrange(5)
    if what == 0:
        del node[key]
    elif what == 1 and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    elif what == 2:
        deep: Any = node[key]
        for _ in range(rng.choice((1, 3, 30))):
            deep = [deep]
        node[key] = deep
    else:
        node[key] = copy.deepcopy(rng.choice(WEIRD))


MUTATIONS: dict[str, tuple[Callable[[bytes, random.Random], bytes], ...]] = {
    "model": (mutate_bytes, mutate_json),
    "synopsis": (mutate_bytes, mutate_json),
    "transcript": (mutate_bytes, mutate_lines),
    "ledger": (mutate_bytes,),
    "bounds": (mutate_bytes,),
}


# --- good files to begin with -----------------------------------------------------------------------


def seeds() -> dict[str, list[bytes]]:
    """Files that the library itself writes, small ones."""
    import numpy as np

    from dpkmeans.estimator import DPKMeans

    rng = np.random.default_rng(5)
    records = np.vstack([rng.normal(0.3, 0.05, (60, 2)), rng.normal(0.7, 0.05, (60, 2))])
    found: dict[str, list[bytes]] = {
        "model": [], "synopsis": [], "transcript": [], "ledger": [], "bounds": [b"0:1", b"0:10,-5:5", b"-1e3:1e3,0:1"],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        for options in (
            {"method": "su", "epsilon": 1.0},
            {"method": "posterior", "guarantee": "paper", "max_iter": 5, "random_state": None, "epsilon": 1.0},
            {"method": "synopsis", "n_records": 120, "epsilon": 1.0},
        ):
            release = DPKMeans(2, bounds=(0, 1), **options).fit(records).release_
            release.save(path)
            found["model"].append(path.read_bytes())
            if release.transcript:
                release.save_transcript(path)
                found["transcript"].append(path.read_bytes())
        _small_synopsis().save(path)
        found["synopsis"].append(path.read_bytes())
        store = DurableLedger.create(Path(name) / "ledger.db", analyst="fuzz")
        store.add("visits", 1.0)
        for promised in (0.2, None):
            account = store.account("visits", promised=promised, note="fuzz")
            from dpkmeans.core.epsilon import Epsilon
            from dpkmeans.privacy.ledger import Ledger

            budget = Ledger(promised, parent=account)
            for number in range(8):
                budget.spend(Epsilon.of(0.01), f"step {number}")
            account.settle()
        store.close()
        found["ledger"].append((Path(name) / "ledger.db").read_bytes())
    return found


def _small_synopsis() -> Synopsis:
    import numpy as np

    from dpkmeans.core.epsilon import Epsilon, Spend
    from dpkmeans.core.guarantee import Guarantee
    from dpkmeans.synopsis.weighted_points import WeightedPoints

    points = WeightedPoints(np.array([[0.25, 0.5], [0.75, 0.5], [0.5, 0.125]]), np.array([10.0, 20.0, 5.5]))
    spends = (Spend("tree", (Epsilon.of(1.0),)),)
    return Synopsis(points, Bounds.of((0, 1), 2), Guarantee("proved"), spends, 1.0, "tree", ("east", "north"))
