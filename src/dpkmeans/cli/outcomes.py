"""Runs a command and turns every outcome into an exit code, never into a traceback.

Exit codes: 0 done, 1 internal error, 2 usage, 3 guarantee or budget refused, 4 data or file, 5 an audit finds a
violation, 6 a cluster that cannot be reached or was lost, 130 interrupted, 143 terminated. Whatever a fit spent before
it was interrupted stays spent.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import warnings
from collections.abc import Sequence

from dpkmeans.cli.signals import SPENT, WORDS, watched
from dpkmeans.engines.limits import nearly_out_of_memory, out_of_memory
from dpkmeans.errors import (
    UNSET,
    BoundsError,
    BudgetError,
    DataError,
    DPKMeansWarning,
    EngineError,
    Explained,
    FileError,
    GuaranteeError,
    MethodError,
    OutOfMemoryError,
    SchemaError,
)
from dpkmeans.interrupts import Stopped, check

DONE, FAULT, USAGE, REFUSED, DATA, VIOLATION, CLUSTER = range(7)
INTERRUPTED, BROKEN_PIPE = 130, 141

_EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (BoundsError, USAGE),
    (SchemaError, USAGE),
    (MethodError, USAGE),
    (GuaranteeError, REFUSED),
    (BudgetError, REFUSED),
    (DataError, DATA),
    (FileError, DATA),
    (EngineError, CLUSTER),
    (OutOfMemoryError, DATA),
)

# Options that are not called like the parameter they set.
_OPTIONS = {
    "n_clusters": "--k",
    "random_state": "--seed",
    "expected_head": "--head",
    "keep": "--per-person",
    "unit": "--person",
}


def run_command(arguments: Sequence[str] | None) -> int:
    """Run the command with `arguments`, or those of the process, and return its exit code."""
    try:
        from dpkmeans.cli.app import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in {"cyclopts", "rich"}:
            raise
        return _fail(
            f"the command needs {error.name}. Every installation has it; repair yours with: pip install dpkmeans", USAGE
        )
    try:
        with warnings.catch_warnings(), watched(to_the_end=arguments is None):
            _show_own_warnings_only()
            try:
                code = run(sys.argv[1:] if arguments is None else list(arguments))
                sys.stdout.flush()
            finally:  # work that is given up may fail as it ends; a signal that came too late still decides the code
                check()
    except Stopped as stopped:
        return _fail(f"{WORDS[signal.Signals(stopped.number)]}. {SPENT}", 128 + stopped.number)
    except KeyboardInterrupt:  # from a library that handles the signal itself
        return _fail(f"interrupted. {SPENT}", INTERRUPTED)
    except (BrokenPipeError, SystemExit):  # the reader of our output is gone; rich then exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except Exception as error:
        return _outcome(error)
    return code


def _outcome(error: Exception) -> int:
    for kind, code in _EXIT_CODES:
        if isinstance(error, kind):
            return _fail(_in_words(error), code)
    if isinstance(error, MemoryError) or nearly_out_of_memory():
        return _fail(_in_words(out_of_memory()), DATA)
    # An unforeseen exception may quote a record, so only its type is shown.
    return _fail(f"unexpected {type(error).__name__}. This is a bug in dpkmeans; please report it.", FAULT)


def _in_words(error: Exception | str) -> str:
    return error.in_words(as_option) if isinstance(error, Explained) else str(error)


def as_option(parameter: str, value: object = UNSET) -> str:
    """A parameter of the library as the option that sets it.

    >>> as_option("n_clusters"), as_option("header", False), as_option("scale", None)
    ('--k', '--no-header', '--scale none')
    >>> as_option("bounds", ([0, -5], [10, 5]))
    '--bounds 0:10,-5:5'
    """
    option = _OPTIONS.get(parameter, f"--{parameter.replace('_', '-')}")
    if value is UNSET or value is True:
        return option
    if value is None:
        return f"{option} none"
    if value is False:
        return option.replace("--", "--no-")
    if isinstance(value, tuple):  # bounds: one pair for all features, or one list for each side
        low, high = (side if isinstance(side, list) else [side] for side in value)
        value = ",".join(f"{a}:{b}" for a, b in zip(low, high, strict=True))
    in_quotes = repr(value) if value in (",", ".") else shlex.quote(str(value))  # apart from a sentence's own marks
    return f"{option} {in_quotes}"


def _fail(message: str, code: int) -> int:
    print(f"error: {printable(message)}", file=sys.stderr)
    return code


def _show_own_warnings_only() -> None:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"warning: {printable(_in_words(message))}", file=sys.stderr)

    warnings.simplefilter("ignore")
    warnings.simplefilter("always", DPKMeansWarning)
    warnings.showwarning = show


def printable(message: str) -> str:
    """Without control characters, with which the content of a file could overwrite the terminal."""
    if message.isprintable():
        return message
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in message)
