"""How every kernel is compiled, and when: numba is imported, and a kernel compiled, where one is first needed.

Compiling takes seconds, once per machine; importing numba and reading compiled code takes half a second in every
process. A fit of a few thousand records needs neither: the kernels that it calls have a second version in plain NumPy
that gives the same bits (`tests/kernels/test_plain.py`). A process runs these until it has done `CREDIT` of work, and
compiled code from then on. So it spends at most a fraction of a second in plain code that compiled code would save.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, update_wrapper
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import CodeType, FunctionType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MARKS = (b"@compiled", b"Intrinsic(", b"import intrinsic")  # in every file that holds a kernel or a constant of one
CREDIT = 2**28
"""Work in plain code, in entries written (about a nanosecond each), before a process begins to compile."""
LARGE = 2**23
"""A call with more work than this is compiled at once."""
OVERHEAD = 2**14
"""What a call of a plain version costs however small its arrays are, in the same units."""
COMPILING = "Compiling for this processor, once: 15 to 30 s. The next start finds it on the disk."


@dataclass
class _Plain:
    """How much more work this process may do in plain code."""

    left: int = CREDIT

    def covers(self, work: int) -> bool:
        """Take `work` off what is left. Once that is not enough, it never is again."""
        self.left = -1 if work > min(self.left, LARGE) else self.left - work - OVERHEAD
        return self.left >= 0


_PLAIN = _Plain()
_BUILDING = RLock()


def _log(message: str) -> None:
    """For whoever asked for the log of this package; a library prints nothing by itself."""
    import logging

    logging.getLogger("dpkmeans").info(message)


_SAY: list[Callable[[str], None]] = [_log]


def compiles() -> bool:
    """Whether this process has come to the point from which every kernel is compiled."""
    return _PLAIN.left < 0


def compile_from_now_on() -> None:
    """Run no plain version any more in this process."""
    _PLAIN.left = -1


def tell_of_compiling(say: Callable[[str], None]) -> None:
    """Let `say` show a line before this process compiles for the first time; without it, the line goes to the log.

    Reading from the disk is not compiling.
    """
    _SAY[:] = [say]


@cache
def _numba() -> Any:
    import numba
    from numba.core import event

    class Told(event.Listener):
        def on_start(self, _: Any) -> None:
            while _SAY:
                _SAY.pop()(COMPILING)

        def on_end(self, _: Any) -> None:
            pass

    event.register("numba:compile", Told())  # type: ignore[no-untyped-call]
    return numba


@dataclass(frozen=True)
class Intrinsic:
    """A function written in LLVM, by the name it has in the module `home`, which imports numba."""

    home: str
    name: str

    def load(self) -> Any:
        """What numba knows it as."""
        return getattr(import_module(self.home), self.name)

    def __call__(self, *_: Any) -> Any:
        raise TypeError(f"{self.name} can only be called by compiled code.")


class Kernel(Generic[P, R]):
    """A function that is compiled where it is called for the first time, and kept on disk."""

    def __init__(
        self, function: Callable[P, R], plain: Callable[P, R] | None = None, work: Callable[P, int] | None = None
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.plain = plain
        self._work = work
        self._built: Any = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if (
            self.plain is not None
            and _PLAIN.left >= 0
            and _PLAIN.covers(self._work(*args, **kwargs) if self._work is not None else 0)
        ):
            return self.plain(*args, **kwargs)
        result: R = (self._built or self.built)(*args, **kwargs)
        return result

    @property
    def built(self) -> Any:
        """The function as numba compiles it, without a cache where no folder for one can be written.

        The name in the cache holds the content of all kernels: where any of them changes, all are compiled again.
        """
        with _BUILDING:
            if self._built is None:
                numba = _numba()
                function = _with_built_globals(self.function)
                function.__qualname__ = f"{function.__qualname__}_{content_of_kernels()}"
                try:
                    self._built = numba.njit(nogil=True, cache=True)(function)
                except RuntimeError:
                    self._built = numba.njit(nogil=True)(function)
            return self._built


def _with_built_globals(function: Callable[..., Any]) -> FunctionType:
    """The function with kernels and intrinsics, where it names them, as numba knows them."""
    assert isinstance(function, FunctionType)
    known: dict[type, Callable[[Any], Any]] = {Kernel: lambda kernel: kernel.built, Intrinsic: Intrinsic.load}
    named = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    replaced = {name: known[type(value)](value) for name, value in named.items() if type(value) in known}
    copy = FunctionType(
        function.__code__,
        {**function.__globals__, **replaced},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    update_wrapper(copy, function)
    return copy


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(_names(part) for part in inner))


@cache
def content_of_kernels() -> str:
    """A digest of all files with kernels. Numba keeps constants and callees of other files as they were compiled."""
    digest = sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        content = path.read_bytes()
        if any(mark in content for mark in MARKS):
            digest.update(sha256(content).digest())
    return digest.hexdigest()[:16]


def compiled(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile on first use."""
    return Kernel(function)


def compiled_or(plain: Callable[P, R], work: Callable[..., int]) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Compile on first use, but run `plain`, which gives the same bits, while little work is done in this process.

    `work` says how many entries a call of it writes, from the same arguments.
    """
    return lambda function: Kernel(function, plain, work)


def drives_kernels(function: Callable[P, R]) -> Kernel[P, R]:
    """Compile on first use; or run as it is, where its loops are over kernels that run their plain versions."""
    return Kernel(function, function)
