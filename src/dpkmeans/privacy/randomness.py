"""Where random numbers come from: a cryptographic source for what is private, a seeded double for the rest.

`Randomness` holds both kinds that a run needs. `generator` is for public choices (starts, restarts, the
paper's zones). `noise` is for mechanisms alone. A seeded run can be repeated, so it protects nothing: `seeded`
says so, and its result is labelled `none`.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.errors import MethodError
from dpkmeans.privacy.gaussian import add_gaussian
from dpkmeans.privacy.laplace import add_laplace

SATURATED = 2**63 - 1
"""The largest noise a source returns: a draw at or beyond it comes back as exactly this."""

_FEATURES = threading.Lock()


class NoiseSource(Protocol):
    """Integer noise. Every `scale` is a positive number that a float64 holds exactly (see `float_above`)."""

    def __hash__(self) -> int:
        """Sources with the same hash and equal have the same `loss`."""

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        """`values` plus noise with P(z) ∝ exp(-|z|/scale) on each entry, any shape; saturates at 64 bits."""

    def geometric(self, size: int, scale: Fraction) -> IntArray:
        """Draws with P(j) ∝ exp(-j/scale), j = 0, 1, ..., shape (size,); min(j, SATURATED) to be exact."""

    def gaussian(self, values: IntArray, variance: Fraction) -> IntArray:
        """`values` plus noise with P(z) ∝ exp(-z²/(2 · variance)) on each entry, any shape; saturates at 64 bits.

        The variance is any fraction above 0 and up to 2^104.
        """

    def below(self, n: int) -> int:
        """One of 0, ..., n-1, each as likely, for an `n` of any size."""

    def below_each(self, bounds: AnyArray) -> AnyArray:
        """`below` for each entry: int64 bounds, or Python integers in an object array."""

    def loss(self, change: int, scale: Fraction) -> Fraction:
        """The privacy loss at `scale` where the answer moves by `change`: change/scale, never less."""


@dataclass(frozen=True)
class SecureNoise:
    """Exact samplers on random words of the operating system. Holds no state."""

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        return add_laplace(values, scale, _words)

    def geometric(self, size: int, scale: Fraction) -> IntArray:
        """See `NoiseSource`. A negative Laplace draw L stands for -L-1: both halves have this law."""
        draws = self.laplace(np.zeros(size, dtype=np.int64), scale)
        return np.where(draws >= 0, draws, ~draws)

    def gaussian(self, values: IntArray, variance: Fraction) -> IntArray:
        return add_gaussian(values, variance, _words)

    def below(self, n: int) -> int:
        return secrets.randbelow(n)

    def below_each(self, bounds: AnyArray) -> AnyArray:
        """See `NoiseSource`. A 64-bit word in the last, incomplete run of `bound` values is drawn again."""
        if bounds.dtype == object:
            return _one_by_one(self, bounds)
        flat = bounds.astype(np.uint64).ravel()
        last = np.uint64(2**64 - 1) - (np.uint64(0) - flat) % flat  # 2^64 mod n = (2^64 - n) mod n
        words = _words(flat.size)
        again = np.flatnonzero(words > last)
        while again.size:
            words[again] = _words(again.size)
            again = again[words[again] > last[again]]
        return (words % flat).astype(np.int64).reshape(bounds.shape)

    def loss(self, change: int, scale: Fraction) -> Fraction:
        """See `NoiseSource`. OpenDP's own privacy map, which rounds up."""
        return _loss(change, scale)


class SeededNoise:
    """The same laws by NumPy from a seed: for tests and experiments. Protects nothing."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._generator = np.random.default_rng(seed)

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        """See `NoiseSource`. The difference of two geometric draws."""
        draws = self.geometric(2 * values.size, scale)
        return values + (draws[: values.size] - draws[values.size :]).reshape(values.shape)

    def geometric(self, size: int, scale: Fraction) -> IntArray:
        stop = -math.expm1(-1 / float(scale))
        return self._generator.geometric(stop, size).astype(np.int64) - 1

    def gaussian(self, values: IntArray, variance: Fraction) -> IntArray:
        """See `NoiseSource`. The sampler of the secure source, with words of NumPy's generator."""
        return add_gaussian(values, variance, lambda size: self._generator.integers(0, 2**64, size, dtype=np.uint64))

    def below(self, n: int) -> int:
        if n < 2**63:
            return int(self._generator.integers(n))
        bits = (n - 1).bit_length()
        while True:
            word = int.from_bytes(self._generator.bytes(bits // 8 + 1), "little") & ((1 << bits) - 1)
            if word < n:
                return word

    def below_each(self, bounds: AnyArray) -> AnyArray:
        if bounds.dtype == object:
            return _one_by_one(self, bounds)
        return self._generator.integers(0, bounds, dtype=np.int64)

    def loss(self, change: int, scale: Fraction) -> Fraction:
        """See `NoiseSource`. What an unseeded source would lose."""
        return change / scale


@dataclass(frozen=True)
class Randomness:
    """The random numbers of one run: `generator` for public choices, `noise` for mechanisms."""

    generator: np.random.Generator
    noise: NoiseSource
    _fresh: bool = field(default=False, init=False, repr=False)

    @property
    def seeded(self) -> bool:
        """True unless `secure` made it: nobody can tell by a generator whether it was seeded. Never `proved` then."""
        return not self._fresh

    def key(self) -> bytes:
        """A key of 128 bits: from the operating system, or from the generator where a run is to be repeated."""
        return self.generator.bytes(16) if self.seeded else secrets.token_bytes(16)

    @classmethod
    def secure(cls) -> Randomness:
        """Fresh from the operating system. No seed, and NumPy's global seed least of all, has a say in it."""
        made = cls(np.random.default_rng(), SecureNoise())
        object.__setattr__(made, "_fresh", True)
        return made

    @classmethod
    def with_seed(cls, seed: int) -> Randomness:
        """The same every time, public choices and noise apart."""
        public, noise = np.random.SeedSequence(seed).spawn(2)
        return cls(np.random.default_rng(public), SeededNoise(noise))

    @classmethod
    def of(cls, random_state: int | np.random.Generator | np.random.RandomState | Randomness | None) -> Randomness:
        """What scikit-learn's `random_state` asks for: None is secure, anything else is seeded.

        A `Randomness` is taken as it is, for audits; it is no longer secure, whatever it was.
        """
        if random_state is None:
            return cls.secure()
        if isinstance(random_state, Randomness):
            return cls(random_state.generator, random_state.noise)
        if isinstance(random_state, np.random.Generator):
            return cls(random_state, SeededNoise(int(random_state.integers(2**63))))
        if isinstance(random_state, np.random.RandomState):
            return cls.with_seed(int(random_state.randint(2**31 - 1)))
        if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
            return cls.with_seed(int(random_state))
        raise MethodError(
            f"must be None, an integer of at least 0, or a NumPy generator; got {random_state!r}.",
            parameter="random_state",
            hint="Leave it out for a private result.",
        )


def float_above(value: Fraction) -> Fraction:
    """The smallest float64 that is not below `value`, as a fraction."""
    nearest = float(value)
    return Fraction(nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf))


def next_float(value: Fraction) -> Fraction:
    """The float64 after `value`, as a fraction."""
    return Fraction(math.nextafter(float(value), math.inf))


def _words(size: int) -> AnyArray:
    """64-bit words from the operating system, shape (size,)."""
    return np.frombuffer(bytearray(secrets.token_bytes(8 * size)), dtype=np.uint64)


def _one_by_one(source: NoiseSource, bounds: AnyArray) -> AnyArray:
    drawn = np.empty(bounds.shape, dtype=object)
    drawn.ravel()[:] = [source.below(int(bound)) for bound in bounds.ravel()]
    return drawn


@lru_cache(maxsize=256)
def _measurement(scale: Fraction) -> Any:
    """OpenDP's Laplace measurement on vectors of int64, for its privacy map. It uses the exact value of a float."""
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics

    number = float(scale)
    if Fraction(number) != scale:
        raise ValueError("A noise scale must be a float64 exactly; pass it through float_above first.")
    with _contrib():
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l1_distance(T="i64")
        return measurements.make_laplace(*space, scale=number)


@lru_cache(maxsize=256)
def _loss(change: int, scale: Fraction) -> Fraction:
    return Fraction(_measurement(scale).map(change))


@contextmanager
def _contrib() -> Iterator[None]:
    """OpenDP's switch for its contributed constructors, on only while one is called.

    The switch is global to the process, so it is put back for a caller who left it off.
    """
    import opendp.mod as opendp

    with _FEATURES:
        was_on = "contrib" in opendp.GLOBAL_FEATURES
        opendp.enable_features("contrib")
        try:
            yield
        finally:
            if not was_on:
                opendp.disable_features("contrib")
