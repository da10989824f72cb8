"""A toy language model: one attention layer whose next-token scores depend on every number in the cache.

What is stored for a token is computed from all that is stored before it, so one wrong vector changes all that follows.
No BLAS: the order of its sums may depend on where an array lies. These sums have one order, so equal caches give
equal bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

VOCABULARY = 23
HIDDEN = 6
STORED = 2 * HIDDEN  # a key and a value

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """What one token gives. stored: float64 [STORED], for the cache; scores: float64 [VOCABULARY], logarithms."""

    stored: Vector
    scores: Vector


class ToyModel:
    """Fixed random weights."""

    def __init__(self, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        self._embedding = random.normal(size=(VOCABULARY, HIDDEN))
        self._to_stored = random.normal(size=(HIDDEN, STORED))
        self._to_scores = random.normal(size=(HIDDEN, VOCABULARY))
        self._frequencies = random.uniform(0.1, 2.0, size=HIDDEN)

    def step(self, cache: Vector, token: int) -> Step:
        """The token at position n behind cache, float64 [n, STORED]. Modifies nothing."""
        query = self._embedding[token] + np.sin(len(cache) * self._frequencies)
        hidden = np.tanh(query + _attend(np.array(cache), query))
        scores = _times(hidden, self._to_scores)
        return Step(_times(hidden, self._to_stored), scores - np.log(np.add.reduce(np.exp(scores))))


def _attend(cache: Vector, query: Vector) -> Vector:
    if not len(cache):
        return np.zeros(HIDDEN)
    keys, values = cache[:, :HIDDEN], cache[:, HIDDEN:]
    match = _times(query, np.ascontiguousarray(keys.T)) / np.sqrt(HIDDEN)
    weights = np.exp(match - match.max())
    context: Vector = _times(weights, np.ascontiguousarray(values)) / np.add.reduce(weights)
    return context


def _times(vector: Vector, matrix: Vector) -> Vector:
    """vector @ matrix, row after row."""
    total = np.zeros(matrix.shape[1])
    for factor, row in zip(vector, matrix, strict=True):
        total += factor * row
    return total
