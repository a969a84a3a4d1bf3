"""What the command prints: results on stdout, status on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dpkmeans.cli.outcomes import printable
from dpkmeans.core.readable import (
    INTERVALS_IN_WORDS,
    centroid_rows,
    column_names,
    identity_rows,
    intervals_of,
    kinds_of_features,
    size_texts,
)
from dpkmeans.progress import stage, watch

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from dpkmeans.core.release import Release
    from dpkmeans.engines.block_engine import PassReport
    from dpkmeans.evaluation.answers import Profile, Quality

_ANY_WIDTH = 10**6
_LONG = 1000  # rows; a longer table is printed without rich, which takes a minute for 100 000
_EVERY = 5.0  # seconds between two lines of progress where there is no terminal
_STYLES = {"proved": "bold green", "paper": "bold yellow", "none": "bold red"}


@contextmanager
def status(message: str, *, line: bool = True) -> Iterator[None]:
    """Show on stderr what is being done, in a `line`, and on a terminal how far it has come.

    The bar goes when the work is done.
    """
    console = Console(stderr=True, highlight=False)
    if line:
        note(message)
    if not console.is_terminal:
        yield
        return
    from rich.progress import TaskProgressColumn

    with _bar(console, TaskProgressColumn(), what=message, transient=True) as report, watch(report):
        yield


class Report(Protocol):
    """How far the work has come, and what is being done."""

    def __call__(self, done: float, total: float | None, what: str = "") -> None:
        """Show it."""


@contextmanager
def progress(unit: str) -> Iterator[Report]:
    """Show on stderr how many of all `unit`s are done: a bar on a terminal, a plain line now and then elsewhere."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _lines(unit)
        return
    from rich.progress import MofNCompleteColumn, TextColumn

    with _bar(console, MofNCompleteColumn(), TextColumn(unit)) as report:
        yield report


@contextmanager
def _bar(console: Console, *columns: ProgressColumn, what: str = "", transient: bool = False) -> Iterator[Report]:
    """A bar, how much is done as the `columns` say it, the time since it began and the time left, and what is done."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    behind = TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False)
    # Lines on stderr go above the bar. Standard output stays what it is: libraries that are imported meanwhile keep it.
    shown = BarColumn(24), *columns, *behind
    with Progress(*shown, console=console, transient=transient, redirect_stdout=False) as bar:
        task = bar.add_task(printable(what), total=None)

        def report(done: float, total: float | None, what: str = "") -> None:
            nonlocal task
            what, now = printable(what), bar.tasks[0]
            if transient and (what != now.description or total != now.total):  # other work, of another speed
                bar.remove_task(task)
                task = bar.add_task(what, total=total)
            bar.update(task, completed=done, total=total, description=what)

        yield report


def _lines(unit: str) -> Report:
    began = last = time.monotonic()
    last_what = ""

    def report(done: float, total: float | None, what: str = "") -> None:
        nonlocal last, last_what
        now = time.monotonic()
        assert total is not None, "counted work has an end"
        if done < total and what == last_what and now - last < _EVERY:
            return
        last, last_what = now, what
        left = f", about {_duration((now - began) / done * (total - done))} left" if done else ""
        note(f"{done} of {total} {unit}{left}{what and f': {what}'}")

    return report


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{round(seconds)} s" if seconds < 90 else f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def note(message: str) -> None:
    """One line on stderr."""
    sys.stderr.write(printable(message) + "\n")


def compiling(message: str) -> None:
    """Say that compiling begins, which happens once on a machine."""
    note(message)
    stage("compiling")


def print_json(content: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(content, allow_nan=False, indent=1) + "\n")


def print_json_lines(content: dict[str, Any], lists: dict[str, Iterable[Any]]) -> None:
    """One JSON document on stdout, with `lists` in it that may be long: one line for each of their items."""
    head = json.dumps(content, allow_nan=False, indent=1).removesuffix("\n}")
    encode = json.JSONEncoder(allow_nan=False).encode
    for name, items in lists.items():
        rows = ",\n".join(f"  {encode(item)}" for item in items)
        head += f',\n "{name}": [\n{rows}\n ]'
    sys.stdout.write(f"{head}\n}}\n")


def print_lines(lines: Iterable[object]) -> None:
    """Plain lines on stdout."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Names and texts, one below the other, on stdout."""
    console = Console(highlight=False)
    for name, value in rows:
        console.print(Text(f"{name:<17} {printable(value)}"))


def print_release(release: Release, *, identity: bool = False) -> None:
    """The guarantee in plain words, what was spent, on request which release it is, and the centroids."""
    print_guarantee(release)
    ending = {True: "converged after ", False: "stopped by max_iter after ", None: ""}[release.converged]
    rows = [
        ("method", release.method),
        ("epsilon spent", release.cost.spent_in_words()),
        ("epsilon promised", release.cost.promised_in_words()),
        ("passes", f"{release.n_passes} over the records; {ending}{release.n_iter} iterations"),
    ]
    if "estimated_bounds" in release.parameters:
        rows.append(("estimated bounds", _estimate(release)))
    if identity:
        rows += identity_rows(release.identity, release.guarantee)
    print_rows(rows)
    header = ["cluster", *column_names(release)] + ([] if release.sizes is None else ["noisy size"])
    found = intervals_of(release)
    texts = size_texts(release, found)
    sizes = [[]] * release.n_clusters if texts is None else [[size] for size in texts]
    lines = enumerate(zip(centroid_rows(release, None, found), sizes, strict=True))
    print_table(header, [[str(i), *centroid, *size] for i, (centroid, size) in lines])
    if found is not None:
        print_lines([INTERVALS_IN_WORDS])


def _estimate(release: Release) -> str:
    """The estimated bounds, and what the estimate says of them."""
    found = release.parameters["estimated_bounds"]

    def side(j: int, name: str) -> str:
        notes = [kind.replace("_", " ") for kind, names in found.items() if {name, str(j)} & set(names)]
        ends = f"{name} {release.bounds.lower[j]:g}:{release.bounds.upper[j]:g}"
        return ends + (f" ({', '.join(notes)})" if notes else "")

    features = enumerate(zip(release.names, kinds_of_features(release), strict=True))
    return ", ".join(side(j, name) for j, (name, kind) in features if kind is None or kind.name == "number")


def print_guarantee(release: Release | Quality | Profile) -> None:
    """The guarantee in plain words, on stdout."""
    text = Text(printable(release.summary()), style=_STYLES.get(release.guarantee.label, "bold"))
    Console(highlight=False).print(text, soft_wrap=True)


def print_table(header: Sequence[str], body: Iterable[Sequence[str]], *, right: bool = True) -> None:
    """A table that is never squeezed: lines may be longer than the terminal is wide."""
    body = [row if "".join(row).isprintable() else [printable(cell) for cell in row] for row in body]
    if len(body) > _LONG:
        _print_long(header, body)
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(Text(printable(name)), justify="right" if right and place else "left", no_wrap=True)
    for row in body:
        table.add_row(*map(Text, row))
    console = Console(highlight=False)
    unbounded = console.options.update(max_width=_ANY_WIDTH)
    console.width = max(console.width, Measurement.get(console, unbounded, table).maximum)
    console.print(table)


def _print_long(header: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(header, *body, strict=True)]
    line = "  ".join(f"{{:<{width}}}" for width in widths)
    sys.stdout.write("".join(f"{line.format(*row).rstrip()}\n" for row in (header, *body)))


def show_pass(report: PassReport) -> None:
    """One line on stderr after each pass, for the data holder, where there is no bar."""
    if Console(stderr=True).is_terminal:
        return
    speed = f"{report.rows / max(report.seconds, 1e-9):.0f} rows per second"
    note(f"pass {report.number}: {report.seconds:.3g} s, {speed}")
