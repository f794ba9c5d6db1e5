"""Resampling of whole clusters by their sums: never a second look at the rows.

The draws are the same on every machine: the seed is a hash of words, and sums are put on
a grid so fine that nothing is lost and so coarse that adding them is exact, in any order.
"""

from __future__ import annotations

import hashlib

import numpy as np

from peerage.stats.clusters import Floats

N_DRAWS = 2_000
CHUNK_WEIGHTS = 2**21
CHUNK_PRODUCTS = 2**18  # below this BLAS wakes no threads, which cost more than they save here
FEW_COLUMNS = 16


def generator(*parts: object) -> np.random.Generator:
    """A random generator seeded by the hash of its parts: same words, same numbers, anywhere."""
    texts = [str(part) for part in parts]
    words = "".join(f"{len(text)}:{text}" for text in texts)  # so ("ab", "c") is not ("a", "bc")
    digest = hashlib.sha256(words.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def random_signs(rng: np.random.Generator, n_draws: int, n_clusters: int) -> Floats:
    """Independent ±1, draws by clusters, one random bit each.

    The bits are of the generator's own stream, which no version of numpy will change.
    """
    words = rng.bit_generator.random_raw(-(-n_draws * n_clusters // 64))
    bits = np.asarray(words, dtype="<u8").view(np.uint8)
    signs = np.unpackbits(bits, count=n_draws * n_clusters).astype(np.float64)
    return (2.0 * signs - 1.0).reshape(n_draws, n_clusters)


def chunk_weights(rows: Floats) -> int:
    """How many weights to hold at a time when multiplying them into these rows."""
    n_columns = max(1, rows.shape[1])
    return CHUNK_PRODUCTS // n_columns if n_columns <= FEW_COLUMNS else CHUNK_WEIGHTS


def gridded(rows: Floats) -> Floats:
    """The rows rounded to a power of two per column, so that weighted sums of them are exact."""
    _, exponents = np.frexp(np.abs(rows).sum(axis=0))
    steps = np.ldexp(1.0, np.maximum(exponents + 4 - 53, -1022))
    return np.rint(rows / steps) * steps
