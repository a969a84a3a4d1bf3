"""Replay: a run on D, then on a neighbour D' with every mechanism made to give the same output, call by call.

If nothing but released values steers a run, both runs ask the same questions, and the loss of the whole is the sum of
the losses of its calls. Each of these is computed exactly. So for this pair and these outputs the claim is checked to
the last digit, without statistics; other pairs and outputs are not covered.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np

from dpkmeans._typing import IntArray
from dpkmeans.audit.losses import MECHANISMS, change_of, declared_change, loss_of
from dpkmeans.audit.noise_sources import Wrapped
from dpkmeans.core.exact import Exact, reveal
from dpkmeans.core.query import Sensitivity
from dpkmeans.errors import DPKMeansError, DPKMeansWarning, MisfitWarning, TightBoundsWarning
from dpkmeans.privacy.ledger import Ledger
from dpkmeans.privacy.mechanisms import Gaussian
from dpkmeans.privacy.randomness import NoiseSource, Randomness, SeededNoise

Draw = Callable[[], Any]
Run = Callable[[Randomness], Any]
"""Runs a method on one side of a pair with these random numbers; returns everything it shows, as plain values."""

WHY = "the audit compares exact answers on both sides"
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Call:
    """One mechanism call on both sides: what was declared, what occurred, and its exact loss.

    `loss` may have either sign. Of Gaussian noise it is the part of rho that was used, and `gaussian` is true.
    """

    mechanism: str
    label: str
    budget: Fraction
    loss: Fraction
    declared: int
    occurred: int
    gaussian: bool = False

    @property
    def within(self) -> bool:
        """Whether the loss is within the call's budget, and the change within what was declared."""
        return abs(self.loss) <= self.budget and self.occurred <= self.declared

    @property
    def tightness(self) -> float:
        """The share of its budget that the call used."""
        return float(abs(self.loss) / self.budget)


@dataclass(frozen=True)
class Replayed:
    """Both runs of one pair: their calls, what the ledger says was spent, and where they went apart, if they did."""

    calls: tuple[Call, ...]
    spent: Fraction
    spent_rho: Fraction
    apart: str | None = None

    @property
    def loss(self) -> Fraction:
        """The loss of all calls that were booked in pure epsilon, together."""
        return sum((call.loss for call in self._in_pure), Fraction(0))

    @property
    def rho(self) -> Fraction:
        """What all other calls together used of rho; a pure one loss²/2, as ε-DP is ε²/2 of rho (proofs/ledger.md)."""
        in_pure = {id(call) for call in self._in_pure}
        rest = [call for call in self.calls if id(call) not in in_pure]
        return sum((call.loss if call.gaussian else call.loss**2 / 2 for call in rest), Fraction(0))

    @property
    def _in_pure(self) -> list[Call]:
        """Pure calls; where the ledger booked rho, those whose budgets fit into what it booked as pure epsilon."""
        pure = [call for call in self.calls if not call.gaussian]
        if not self.spent_rho:
            return pure
        held = accumulate(call.budget for call in pure)
        return [call for call, total in zip(pure, held, strict=True) if total <= self.spent]

    @property
    def holds(self) -> bool:
        """Whether nothing unreleased steered the runs, every call kept its budget, and the sum what was spent."""
        kept = abs(self.loss) <= self.spent and self.rho <= self.spent_rho
        return self.apart is None and kept and all(call.within for call in self.calls)

    @property
    def why_not(self) -> str:
        """What does not hold, in words."""
        if self.apart is not None:
            return self.apart
        for call in self.calls:
            if not call.within:
                return (
                    f"{call.label!r} lost {float(abs(call.loss)):.6g} of {float(call.budget):.6g}; one record changed "
                    f"{call.occurred} where {call.declared} is declared"
                )
        if abs(self.loss) > self.spent:
            return f"the run lost {float(abs(self.loss)):.6g} where the ledger says {float(self.spent):.6g}"
        return f"the run used {float(self.rho):.6g} of rho where the ledger says {float(self.spent_rho):.6g}"


def replay(on_d: Run, on_neighbour: Run, seed: int, *, records: int = 1) -> Replayed:
    """Run on D with the noise of a seed, then on D' with the same outputs and the same public randomness.

    `seed` decides which outputs are looked at; the loss at them is exact. Where neighbours differ by up to so many
    `records`, as by a person, a call may lose so many times its budget, and the ledger has to book that.
    """
    tape = _Tape(records)
    with _ONE_AT_A_TIME, _taped(tape):
        first = _shown(on_d, _randomness(tape, seed))
        tape.rewind()
        second = _shown(on_neighbour, _randomness(tape, seed))
    apart = tape.apart
    if apart is None and tape.left():
        apart = f"{tape.left()} calls on D were not made on D'"
    if apart is None and not _same(first.shown, second.shown):
        apart = "the releases differ although all outputs of mechanisms are the same"
    return Replayed(tuple(tape.calls), first.spent, first.spent_rho, apart)


@dataclass
class Outcome:
    """What a run shows, and what its ledger recorded."""

    shown: Any
    spent: Fraction = Fraction(0)
    spent_rho: Fraction = Fraction(0)


def _shown(run: Run, rng: Randomness) -> Outcome:
    """What a run shows: what it returns, the error it ends with, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = run(rng)
        except _ApartError:
            return Outcome(None)
        except DPKMeansError as error:
            found = Outcome(str(error))
    told = [str(warning.message) for warning in caught if _for_all(warning.category)]
    outcome = found if isinstance(found, Outcome) else Outcome(found)
    return Outcome((outcome.shown, told), outcome.spent, outcome.spent_rho)


def _for_all(kind: type) -> bool:
    """Whether a warning is of public values. Some are about the records, for the data holder alone."""
    return issubclass(kind, DPKMeansWarning) and not issubclass(kind, TightBoundsWarning | MisfitWarning)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


class _ApartError(Exception):
    """The second run asked something else than the first."""


@dataclass(frozen=True)
class _Entry:
    mechanism: Any
    label: str
    values: IntArray
    sensitivity: Sensitivity
    output: Any
    scales: tuple[Fraction, ...]

    @property
    def question(self) -> tuple[Any, ...]:
        """What must not depend on a record: the call's parameters, its order, and the noise that it asks for."""
        return self.mechanism, self.label, self.values.shape, self.sensitivity, self.scales


@dataclass
class _Tape:
    """What the mechanisms of a run answered, to be given again."""

    records: int = 1
    entries: list[_Entry] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    scales: list[Fraction] = field(default_factory=list)
    source: NoiseSource | None = None
    booked: Callable[[], bool] | None = None
    playing: int | None = None
    apart: str | None = None

    def rewind(self) -> None:
        self.playing = 0

    def left(self) -> int:
        return len(self.entries) - (self.playing or 0)

    def drawn(self, scale: Fraction) -> None:
        """The source was asked for noise: by a mechanism, and the spend must be in the ledger by then."""
        self.scales.append(scale)
        if self.booked is None:
            self.stop("noise was drawn outside of a mechanism")
        if not self.booked():
            self.stop("noise was drawn before its spend was recorded")

    def stop(self, why: str) -> NoReturn:
        self.apart = self.apart or why
        raise _ApartError

    def call(
        self, mechanism: Any, exact: Exact[IntArray], ledger: Ledger, rng: Randomness, label: str, draw: Draw
    ) -> Any:
        """Draw and keep the output; or, in the second run, draw, and give the kept output in its place."""
        if rng.noise is not self.source:
            self.stop(f"the noise of {label!r} comes from another source than that of the run")
        before_it = len(ledger.spends)
        self.scales.clear()
        self.booked = lambda: len(ledger.spends) > before_it
        output = draw()
        self.booked = None
        entry = _Entry(
            mechanism,
            label,
            reveal(exact, why=WHY).copy(),
            exact.sensitivity,
            output,
            tuple(dict.fromkeys(self.scales)),
        )
        if self.playing is None:
            self.entries.append(entry)
            return _copied(output)
        if not self.left():
            self.stop(f"{label!r} was asked on D' and not on D")
        before = self.entries[self.playing]
        self.playing += 1
        if before.question != entry.question:
            self.stop(f"{before.label!r} on D and {label!r} on D' are not the same question")
        self.calls.append(_compare(before, entry, self.records))
        return _copied(before.output)


def _compare(before: _Entry, after: _Entry, records: int) -> Call:
    mechanism = before.mechanism
    gaussian = isinstance(mechanism, Gaussian)
    times = records**2 if gaussian else records
    budget = times * (mechanism.rho.fraction if gaussian else mechanism.epsilon.fraction)
    (scale,) = before.scales
    loss = loss_of(mechanism, before.values, after.values, before.output, scale)
    declared = times * declared_change(mechanism, before.sensitivity)
    occurred = change_of(mechanism, before.values, after.values)
    return Call(type(mechanism).__name__, before.label, budget, loss, declared, occurred, gaussian)


def _copied(output: Any) -> Any:
    if isinstance(output, np.ndarray):
        return output.copy()
    return tuple(map(_copied, output)) if isinstance(output, tuple) else output


@contextmanager
def _taped(tape: _Tape) -> Iterator[None]:
    """All mechanisms of this process go through the tape."""
    originals = {kind: kind.release for kind in MECHANISMS}

    def through(original: Callable[..., Any]) -> Callable[..., Any]:
        def release(self: Any, exact: Exact[IntArray], *, ledger: Any, rng: Any, label: str) -> Any:
            draw = partial(original, self, exact, ledger=ledger, rng=rng, label=label)
            return tape.call(self, exact, ledger, rng, label, draw)

        return release

    try:
        for kind, original in originals.items():
            setattr(kind, "release", through(original))  # noqa: B010 (a class attribute)
        yield
    finally:
        for kind, original in originals.items():
            setattr(kind, "release", original)  # noqa: B010


class _Watched(Wrapped):
    """A source that tells the tape what it was asked for: what the noise really was, whatever a mechanism says."""

    def __init__(self, source: NoiseSource, drawn: Callable[[Fraction], None]) -> None:
        super().__init__(source)
        self._drawn = drawn

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        self._drawn(scale)
        return super().laplace(values, scale)

    def geometric(self, size: int, scale: Fraction) -> IntArray:
        self._drawn(scale)
        return super().geometric(size, scale)

    def gaussian(self, values: IntArray, variance: Fraction) -> IntArray:
        self._drawn(variance)
        return super().gaussian(values, variance)


def _randomness(tape: _Tape, seed: int) -> Randomness:
    public, noise = np.random.SeedSequence(seed).spawn(2)
    tape.source = _Watched(SeededNoise(noise), tape.drawn)
    return Randomness(np.random.default_rng(public), tape.source)
