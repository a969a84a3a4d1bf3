"""Seeded noise that can be asked what it was drawn for."""

from __future__ import annotations

from dpkmeans.privacy.randomness import SeededNoise


class Watching(SeededNoise):
    """Seeded noise that remembers for which shape and scale it was asked."""

    def __init__(self, seed):
        super().__init__(seed)
        self.asked = []

    def laplace(self, values, scale):
        self.asked.append((values.shape, float(scale)))
        return super().laplace(values, scale)
