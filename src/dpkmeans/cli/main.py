"""The command `dpkmeans`: runs a command and turns every outcome into an exit code, never into a traceback.

Exit codes: 0 done, 1 a fault of ours, 2 usage, 3 guarantee or budget refused, 4 data or file, 5 an audit shows a
violation, 130 interrupted, 143 terminated. Whatever a fit spent before it was interrupted stays spent.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dpkmeans.errors import (
    BoundsError,
    BudgetError,
    DataError,
    FileError,
    GuaranteeError,
    MethodError,
    NotConvergedWarning,
    UnsettledWarning,
    WeakSignalWarning,
)

DONE, FAULT, USAGE, REFUSED, DATA, VIOLATION, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 3, 4, 5, 130, 141, 143

_EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (BoundsError, USAGE),
    (MethodError, USAGE),
    (GuaranteeError, REFUSED),
    (BudgetError, REFUSED),
    (DataError, DATA),
    (FileError, DATA),
)

# The library's messages name Python arguments; here they are options.
_AS_OPTIONS = (
    (r"bounds=\(0, 1\) or bounds=\(lower, upper\) with one number per feature", "--bounds 0:1 or --bounds 0:10,-5:5"),
    (r"bounds='from data'", '--bounds "from data"'),
    (r"\bguarantee='(\w+)'", r"--guarantee \1"),
    (r"\bmethod='(\w+)'", r"--method \1"),
    (r"\bledger='([\w.]+)'", r"--ledger \1"),
    (r"\bnulls='(\w+)'", r"--nulls \1"),
    (r"\bengine='(\w+)'", r"--engine \1"),
    (r"\bdataset='(\w+)'", r"--dataset \1"),
    (r"(?<![\w-])(epsilon|step_epsilon|release_epsilon|bounds_epsilon)=([\d.]+\d)", r"--\1 \2"),
    (r"(?<![\w-])bounds_epsilon\b", "--bounds-epsilon"),
    (r"\bn_clusters=(\d+)", r"--k \1"),
    (r"\bn_clusters\b", "--k"),
    (r"\bA random_state\b", "A --seed"),
    (r"--(step|release|bounds)_epsilon", r"--\1-epsilon"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (those of the process by default) and return its exit code."""
    try:
        from dpkmeans.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"cyclopts", "rich"}:
            raise
        return _fail(f"the command needs {error.name}. Install it with: pip install 'dpkmeans[cli]'", USAGE)
    try:
        with warnings.catch_warnings(), _terminable():
            _show_own_warnings_only()
            code = run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("interrupted. What was spent before stays spent.", INTERRUPTED)
    except Terminated:
        return _fail("terminated. What was spent before stays spent.", TERMINATED)
    except (BrokenPipeError, SystemExit):  # whoever read our output has gone; rich then asks to exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except Exception as error:
        return _outcome(error)
    return code


class Terminated(BaseException):
    """SIGTERM came in."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind the command, so that no temporary file stays behind."""

    def end(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _outcome(error: Exception) -> int:
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return _fail(_in_options(str(error)), code)
    if isinstance(error, MemoryError):
        return _fail("there is not enough memory for this. Use fewer columns or records.", DATA)
    # An unforeseen exception may quote a record, so only its type is shown.
    return _fail(f"unexpected {type(error).__name__}. This is a fault in dpkmeans; please report it.", FAULT)


def _in_options(message: str) -> str:
    for pattern, replacement in _AS_OPTIONS:
        message = re.sub(pattern, replacement, message)
    return message


def _fail(message: str, code: int) -> int:
    print(f"error: {printable(message)}", file=sys.stderr)
    return code


def _show_own_warnings_only() -> None:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {printable(_in_options(str(message)))}", file=sys.stderr)

    warnings.simplefilter("ignore")
    for category in (NotConvergedWarning, UnsettledWarning, WeakSignalWarning):
        warnings.simplefilter("always", category)
    warnings.showwarning = show


def printable(message: str) -> str:
    """Without control characters, which a stranger's file could use to write over the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in message)
