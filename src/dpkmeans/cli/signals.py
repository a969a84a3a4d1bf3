"""What becomes of SIGINT and SIGTERM: a request to stop, and an end of the process if nobody meets it, or on a second.

The operating system writes each signal into a pipe, and a thread reads it there. So a signal is seen whatever the main
thread is doing: compiled code, an import, waiting for a lock.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpkmeans import interrupts
from dpkmeans.storage.temporary import remove_all

GRACE = 2.0  # seconds to come to a place where work can be given up
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
SPENT = "What was spent before stays spent."


@contextmanager
def watched(*, to_the_end: bool) -> Iterator[None]:
    """Within it, the first signal is a request to stop. `to_the_end` keeps it so until the process ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if to_the_end:
        interrupts.process_is_ours()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_watch, args=(reader,), name="signals", daemon=True).start()
    woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    taken = [number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _nothing) for number in taken}
    try:
        yield
    finally:
        if not to_the_end:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)
            os.close(writer)
            interrupts.withdraw()


def _nothing(*_: object) -> None:
    """A handler must be there for the pipe to be written to."""


def _watch(reader: int) -> None:
    first, deadline = 0, 0.0
    while True:
        left = max(deadline - time.monotonic(), 0) if first else None
        if not select.select([reader], [], [], left)[0]:
            _end(first)
        numbers = os.read(reader, 64)
        if not numbers:  # the command has ended
            os.close(reader)
            return
        for number in numbers:
            if number in WORDS and first:
                _end(first)
            if number in WORDS:
                first, deadline = number, time.monotonic() + GRACE
                interrupts.request(number)


def _children() -> set[int]:
    """Dask workers and the Java of Spark that this process has started, if it is the command and nothing else.

    Java would end by itself with our end of its pipe, but not if its folder goes while it is starting.
    """
    found: set[int] = set()
    if "multiprocessing" in sys.modules:
        found |= {child.pid for child in sys.modules["multiprocessing"].active_children()}
    if interrupts.is_process_ours():
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ValueError):
                parent = int(status.read_text().rpartition(")")[2].split()[1])
                found |= {int(status.parent.name)} if parent == os.getpid() else set()
    return found


def _end(number: int) -> None:
    """End the process without unwinding. The ledger is as after a crash: what was reserved counts as spent."""
    for child in _children():
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
    remove_all()
    cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a spinner had hidden it
    os.write(2, f"{cursor}error: {WORDS[signal.Signals(number)]}. {SPENT}\n".encode())
    os._exit(128 + number)
