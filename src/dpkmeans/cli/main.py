"""The command `dpkmeans`. This module imports little: until it has, a signal would print a traceback."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (those of the process by default) and return its exit code."""
    if arguments is None:  # this process does nothing else, and has done nothing yet
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end)
    from dpkmeans.cli.outcomes import run_command

    return run_command(arguments)


def _end(number: int, _: object) -> None:
    os.write(2, b"error: interrupted.\n" if number == signal.SIGINT else b"error: terminated.\n")
    os._exit(128 + number)
