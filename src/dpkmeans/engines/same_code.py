"""Workers run the code of the driver: each task says which code made it, and refuses to run on any other.

A worker with another version would compute other sums, and nothing in them would show it. The check is part of every
task, so that it holds for workers that join later too, and no partial answer of other code is ever added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from dpkmeans.engines.here import this_worker
from dpkmeans.errors import WorkerVersionError


@dataclass(frozen=True)
class Code:
    """A version, and a digest of all files of the package, its kernels among them."""

    version: str
    digest: str


@cache
def code_here() -> Code:
    """The code that this process runs."""
    from dpkmeans import __version__

    digest = sha256()
    for name, content in _files(files("dpkmeans"), ""):
        digest.update(sha256(name.encode()).digest() + sha256(content).digest())
    return Code(__version__, digest.hexdigest()[:16])


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _files(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".py"):
            yield prefix + item.name, item.read_bytes()


@dataclass(frozen=True, repr=False)
class SameCode:
    """A function that runs only where the code is the one that made this value."""

    function: Callable[..., Any]
    code: Code

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "task")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        here = code_here()
        if here != self.code:
            raise WorkerVersionError.at(this_worker(), here.version, here.digest)
        return self.function(*arguments, **options)


def asked_code() -> Callable[[], tuple[str, str] | None]:
    """A function that says which code runs where it is called; None where dpkmeans is missing or has no such check."""

    def code() -> tuple[str, str] | None:  # defined in here, it travels by value and needs no dpkmeans to be loaded
        try:
            from dpkmeans.engines.same_code import code_here
        except ImportError:
            return None
        return code_here().version, code_here().digest

    return code


def same_code(function: Callable[..., Any]) -> SameCode:
    """The function for workers that run the same code as this process."""
    return SameCode(function, code_here())
