"""How many lists an ivfflat index should have, and how much memory a build of so many takes."""

from __future__ import annotations

from math import isqrt


def lists_for(rows: int) -> int:
    """Return how many lists ivfflat should have: sqrt(rows), the best balance of build time and latency measured."""
    return max(1, isqrt(rows))


def build_bytes(lists: int, dimensions: int) -> int:
    """Return the memory that ivfflat must be allowed for finding its centres, in bytes; with less it refuses.

    pgvector samples 50 vectors a list, and keeps of each a bound for every list (Elkan, "Using the triangle inequality
    to accelerate k-means", ICML 2003).
    """
    samples, vector = max(10_000, 50 * lists), 2 * dimensions + 8
    return samples * (vector + 4 * lists + 8) + lists * (2 * vector + 4 * dimensions + 4 * lists + 16)


def most_lists(memory: int, dimensions: int) -> int:
    """Return how many lists an index of vectors can have that is built with so many bytes of memory, a little to
    spare.
    """
    low, high = 1, 32_768  # as many as pgvector can make
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if 1.02 * build_bytes(middle, dimensions) <= memory else (low, middle - 1)
    return low
