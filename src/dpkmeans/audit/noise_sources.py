"""Noise sources for audits: the real draws, recorded or fetched in blocks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpkmeans._typing import AnyArray, IntArray
from dpkmeans.privacy.randomness import NoiseSource

BLOCK = 512  # draws fetched at once
MIN_REQUESTS = 4  # requests for a scale before a block is fetched for it
MAX_SCALES = 256  # scales counted before all are forgotten


class Wrapped:
    """A source that hands every call on to another one; subclasses change some of them."""

    def __init__(self, source: NoiseSource) -> None:
        self._source = source

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        return self._source.laplace(values, scale)

    def geometric(self, size: int, scale: Fraction) -> IntArray:
        return self._source.geometric(size, scale)

    def gaussian(self, values: IntArray, variance: Fraction) -> IntArray:
        return self._source.gaussian(values, variance)

    def below(self, n: int) -> int:
        return self._source.below(n)

    def below_each(self, bounds: AnyArray) -> AnyArray:
        return self._source.below_each(bounds)

    def loss(self, change: int, scale: Fraction) -> Fraction:
        return self._source.loss(change, scale)


class Recorder(Wrapped):
    """A source that keeps what it returned, so that an audit sees all that Laplace mechanisms released."""

    def __init__(self, source: NoiseSource) -> None:
        super().__init__(source)
        self.released: list[IntArray] = []

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        self.released.append(self._source.laplace(values, scale))
        return self.released[-1]


class InBlocks(Wrapped):
    """The same source, with many draws of a scale fetched at once: a call costs far more than a draw.

    Each draw is used once. A block is fetched only for a scale that has been requested a few times.
    """

    def __init__(self, source: NoiseSource) -> None:
        super().__init__(source)
        self._asked: dict[Fraction, int] = {}
        self._stock: dict[Fraction, IntArray] = {}

    def laplace(self, values: IntArray, scale: Fraction) -> IntArray:
        draws = self._take(values.size, scale)
        if draws is None:
            return self._source.laplace(values, scale)
        return values + draws.reshape(values.shape)

    def geometric(self, size: int, scale: Fraction) -> IntArray:
        """From a block. Both halves of a Laplace draw have this law, as in `SecureNoise`."""
        draws = self._take(size, scale)
        return self._source.geometric(size, scale) if draws is None else np.where(draws >= 0, draws, ~draws)

    def _take(self, size: int, scale: Fraction) -> IntArray | None:
        """`size` fresh Laplace draws, shape (size,); None if a block would not pay off."""
        asked = self._asked[scale] = self._asked.get(scale, 0) + 1
        if asked <= MIN_REQUESTS or size > BLOCK // 2:
            if len(self._asked) > MAX_SCALES:
                self._asked.clear()
                self._stock.clear()
            return None
        stock = self._stock.get(scale)
        if stock is None or len(stock) < size:
            stock = self._source.laplace(np.zeros(BLOCK, dtype=np.int64), scale)
        draws, self._stock[scale] = stock[:size], stock[size:]
        return draws
