"""Three community boards from Parquet beside a bare prototype that reads the same file.

The prototype knows nothing of own items, repeats, unknown opinions, names in order, intervals
or ranks: it reads dictionary-encoded columns and adds up. What we take beyond it is the price
of those. Peak memory is measured in a process of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench import Row, compare, growth, memory

AT_MOST = 4.0  # times the prototype
SIZES = (1_000_000, 10_000_000)
REPEATS = {1_000_000: 5, 10_000_000: 2}
MEMORY_MB = 1_000.0
GROWTH = 13.0
ITEM_SHARE, REVIEWER_SHARE = 50, 200  # opinions for each item, and for each reviewer


def run() -> list[Row]:
    """A row a size, one for memory, one for growth."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            path = Path(folder) / f"opinions_{n}.parquet"
            write_opinions(path, n)
            rows.append(boards_beside_sums(path, n))
        peak = memory("bench.opinions:ours", path, n=SIZES[-1], at_most_mb=MEMORY_MB)
    return [*rows, growth(rows[0], rows[1], GROWTH), peak]


def boards_beside_sums(path: Path, n: int) -> Row:
    """The three boards of a file beside bare sums over it."""
    return compare(
        "three boards",
        lambda: ours(path),
        lambda: prototype(path),
        n=n,
        target=1.0 / AT_MOST,
        peer_name="bare bincounts",
        n_repeats=REPEATS.get(n, 3),
    )


def ours(path: Path) -> tuple[int, int, int]:
    """The three boards of one file, as columns."""
    from peerage.reports import InputTables, read_community_boards

    heard = read_community_boards(InputTables(opinions=str(path)))
    return len(heard.contributors()), len(heard.reviewers()), len(heard.items())


def prototype(path: Path) -> tuple[Any, Any, Any]:
    """Qualities, contributors' sums and leave-one-out correlations: arrays, and no more."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    names = ["item_id", "contributor", "reviewer"]
    table = pq.read_table(path, columns=[*names, "opinion"], read_dictionary=names)
    table = table.unify_dictionaries().combine_chunks()
    item, contributor, reviewer = (_indices(table[name]) for name in names)
    x = table["opinion"].to_numpy().astype(np.float64)
    n, total = np.bincount(item), np.bincount(item, weights=x)
    quality = np.where(n >= 3, total / np.maximum(n, 1), 0.0)
    author = np.zeros(len(n), dtype=np.int64)
    author[item] = contributor
    scores = np.bincount(author, weights=quality)
    kept = n[item] >= 3
    x, item, reviewer = x[kept], item[kept], reviewer[kept]
    y = (total[item] - x) / (n[item] - 1)
    count = np.bincount(reviewer)
    sx, sy, sxx, syy, sxy = (
        np.bincount(reviewer, weights=values) for values in (x, y, x * x, y * y, x * y)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt((count * sxx - sx * sx) * (count * syy - sy * sy))
        return quality, scores, (count * sxy - sx * sy) / spread


def _indices(column: Any) -> Any:
    chunk = column.chunk(0) if hasattr(column, "chunk") else column
    return chunk.indices.to_numpy()


def write_opinions(path: Path, n: int) -> None:
    """A community of n opinions, about: random readers of items in the order of their making."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(n)
    n_items, n_people = n // ITEM_SHARE, n // REVIEWER_SHARE
    item = np.sort(rng.integers(0, n_items, n))
    reviewer = rng.integers(0, n_people, n)
    author = rng.integers(0, n_people, n_items)
    quality = rng.normal(size=n_items)
    opinion = np.where(quality[item] + rng.normal(size=n) > 0, 1, -1).astype(np.int8)
    items = pa.array([f"item-{i:08d}" for i in range(n_items)])
    people = pa.array([f"user-{i:07d}" for i in range(n_people)])
    columns = {
        "item_id": items.take(pa.array(item)),
        "contributor": people.take(pa.array(author[item])),
        "reviewer": people.take(pa.array(reviewer)),
        "opinion": pa.array(opinion),
    }
    pq.write_table(pa.table(columns), path)
