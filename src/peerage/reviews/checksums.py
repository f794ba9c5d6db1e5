"""CRC-32 of many texts at once: the cluster of a query is a checksum of its id.

A checksum is linear: among texts of one length, setting a bit changes the checksum in the same way,
whatever the other bits are. So the effect of every two bytes is looked up in a table, for thousands
of texts at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerage.reviews.cells import Ints

Checksums = NDArray[np.uint32]
MANY = 4_096  # with at least this many texts of one length, tables are faster
MAX_BYTES = 64  # of a text that is looked up: every two bytes need a table
BLOCK = 16_384  # texts at a time, which stay in the processor's cache
WORD_BITS = 16  # bits that one table covers


@dataclass(frozen=True, slots=True)
class Utf8Texts:
    """Texts in UTF-8: all their bytes, where each text begins, and how long it is."""

    data: NDArray[np.uint8]
    begin: Ints
    n_bytes: Ints

    @property
    def n(self) -> int:
        return len(self.begin)

    def take(self, rows: Ints) -> Utf8Texts:
        """Return the texts of some rows; their bytes are not copied."""
        return Utf8Texts(self.data, self.begin[rows], self.n_bytes[rows])

    def __iter__(self) -> Iterator[bytes]:
        ends = (self.begin + self.n_bytes).tolist()
        return (self.data[i:j].tobytes() for i, j in zip(self.begin.tolist(), ends, strict=True))


def checksums_of(texts: Utf8Texts, start: int) -> Checksums:
    """Return `zlib.crc32(text, start)` of each text."""
    lengths = np.minimum(texts.n_bytes, MAX_BYTES + 1)
    n_by_length = np.bincount(lengths)
    if np.count_nonzero(n_by_length) == 1:
        return _checksums_of_one_length(texts, int(lengths[0]), start)
    result = np.zeros(texts.n, dtype=np.uint32)
    for n_bytes in np.flatnonzero(n_by_length).tolist():
        rows = np.flatnonzero(lengths == n_bytes)
        result[rows] = _checksums_of_one_length(texts.take(rows), n_bytes, start)
    return result


def _checksums_of_one_length(texts: Utf8Texts, n_bytes: int, start: int) -> Checksums:
    """Return the checksums of texts that all have `n_bytes`, or all more than `MAX_BYTES`."""
    if texts.n >= MANY and n_bytes <= MAX_BYTES:
        return _look_up(texts, n_bytes, start)
    return np.array([zlib.crc32(text, start) for text in texts], dtype=np.uint32)


def _look_up(texts: Utf8Texts, n_bytes: int, start: int) -> Checksums:
    """Return the checksums of texts that all have `n_bytes` bytes."""
    tables = [_changes(n_bytes, first) for first in range(0, n_bytes, WORD_BITS // 8)]
    result = np.full(texts.n, zlib.crc32(bytes(n_bytes), start), dtype=np.uint32)
    stand_together = bool(np.all(np.diff(texts.begin) == n_bytes))
    padded = np.zeros((min(BLOCK, texts.n), WORD_BITS // 8 * len(tables)), dtype=np.uint8)
    at, change = np.empty(BLOCK, dtype=np.intp), np.empty(BLOCK, dtype=np.uint32)
    for place in range(0, texts.n, BLOCK):
        begin = texts.begin[place : place + BLOCK]
        block = padded[: len(begin)]
        if stand_together:
            end = begin[0] + len(begin) * n_bytes
            together = texts.data[begin[0] : end].reshape(-1, n_bytes)
            if n_bytes == padded.shape[1]:
                block = together
            else:
                block[:, :n_bytes] = together
        else:
            block[:, :n_bytes] = texts.data[begin[:, None] + np.arange(n_bytes)]
        some = slice(len(block))
        for table, word in zip(tables, block.view("<u2").T, strict=True):
            at[some] = word
            # Every word is in its table; with `clip`, numpy writes to `out` without a copy.
            np.take(table, at[some], out=change[some], mode="clip")
            result[place : place + BLOCK] ^= change[some]
    return result


def _changes(n_bytes: int, first: int) -> Checksums:
    """Return how each value of the two bytes at `first` changes the checksum of zeros."""
    zeros = zlib.crc32(bytes(n_bytes))
    table = np.zeros(1, dtype=np.uint32)
    for bit in range(min(WORD_BITS, 8 * (n_bytes - first))):
        text = bytearray(n_bytes)
        text[first + bit // 8] = 1 << bit % 8
        table = np.concatenate([table, table ^ np.uint32(zlib.crc32(text) ^ zeros)])
    return table
