"""Stores in trouble: full disks, folders without rights, damaged copies, a file that is replaced.

Each trouble makes a store in a folder, spoils something, checks what must still hold, and returns
a few words about it; an AssertionError says what did not hold.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from peerage.imports import take
from peerage.reports import Reports
from peerage.reports.options import ItemBoardOptions, ModelBoardOptions
from peerage.seating import settings_of
from peerage.stores import Contribution, Store, StoreError, open_store
from peerage.types import Event
from tests.shared.load import LoadPlan, serving_load, write_panel
from tests.stores.bare_events import opened

# -- full disks, and folders without rights ------------------------------------------------------


def note(session_id: str, seq: int, body: dict[str, Any] | None = None) -> Event:
    return Event(session_id, seq, "x", 0.0, body or {})


def fill_the_disk(folder: Path) -> str:
    """A write for which there is no room fails in words, and what was stored stays."""
    url = f"sqlite:///{folder / 'p.db'}"

    async def scene() -> None:
        store = open_store(url)
        await store.append(opened("a"))
        with sqlite3.connect(folder / "p.db") as db:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.close()
        with store.transaction() as limited:
            limited.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="disk is full"):
            store.append_all([note("a", 1, {"text": "x" * 1_000_000})])
        await store.append(note("a", 1))
        await store.close()

    asyncio.run(scene())
    assert len(open_store(url).events("a")) == 2
    return "refused in words, 0 of 1 stored events lost, later writes kept"


@contextmanager
def as_somebody_without_rights() -> Iterator[None]:
    """As a user who owns nothing: the rights of files do not bind root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def take_rights_away(folder: Path) -> str:
    """A store that cannot be written to is read as it is, and a write is refused in words."""
    path = folder / "p ?#%41.db"
    url = f"sqlite:///{path}"
    store = open_store(url)
    store.append_all([opened("a"), opened("b")])
    asyncio.run(store.close())
    path.chmod(0o444)
    folder.chmod(0o555)
    before = sorted(folder.iterdir())
    with as_somebody_without_rights():
        store = open_store(url)
        assert {row.id for row in store.sessions()} == {"a", "b"}
        assert store.events("a")
        with pytest.raises(StoreError, match="cannot be written"):
            store.append_all([opened("c")])
        with pytest.raises(StoreError):
            asyncio.run(_append(url, opened("d")))
    assert sorted(folder.iterdir()) == before
    folder.chmod(0o755)
    return "read as it is, 2 writes refused in words, nothing left behind"


async def _append(url: str, event: Event) -> None:
    store = open_store(url)
    try:
        await store.append(event)
    finally:
        await store.close()


# -- damaged copies of the log -------------------------------------------------------------------

CANDIDATES = "abc"


def reports_of(url: str) -> Reports:
    return Reports(settings_of(None, {"store": url}))


def ballots(*names: str) -> list[dict[str, Any]]:
    """Sessions of three answers and one reviewer, as a ballots file has them."""
    labels = {f"Response {name.upper()}": name for name in CANDIDATES}
    order = sorted(labels, reverse=True)
    ranking = {"ranking": order}
    return [
        {
            "session_id": name,
            "query": "Q",
            "responses": [{"model": model, "response": model * (i + 1)} for model in CANDIDATES],
            "label_to_model": labels,
            "rankings": [{"model": "r", "parsed_ranking": ranking}],
        }
        for i, name in enumerate(names)
    ]


def take_sessions(store: Store, folder: Path, *names: str) -> None:
    file = folder / f"{'-'.join(names)}.json"
    file.write_text(json.dumps(ballots(*names)))
    take(store, file, "sessions", lambda: 7.0)


def reviews(folder: Path, name: str, n_sessions: int = 30) -> Path:
    """A CSV of reviews by two reviewers."""
    rng = random.Random(name)
    lines = ["session_id,reviewer,candidate,rank,at"]
    for i in range(n_sessions):
        for reviewer in "uv":
            order = rng.sample(CANDIDATES, len(CANDIDATES))
            lines += [f"{name}{i},{reviewer},{c},{r},{i}" for r, c in enumerate(order, 1)]
    file = folder / f"{name}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def opinion(i: int) -> Contribution:
    return Contribution("opinions", f"i{i % 3}", "ann", float(i), f"r{i}", (-1.0) ** i)


def filled_store(tmp_path: Path) -> str:
    """A store with sessions, contributions and imported tables."""
    url = f"sqlite:///{tmp_path / 'p.db'}"
    store = open_store(url)
    take_sessions(store, tmp_path, "s1", "s2")
    take(store, reviews(tmp_path, "first"), "reviews", lambda: 7.0)
    (tmp_path / "o.csv").write_text("item_id,contributor,reviewer,opinion,at\nj,ben,r1,1,1\n")
    take(store, tmp_path / "o.csv", "opinions", lambda: 7.0)
    store.add_contributions([*map(opinion, range(9)), Contribution("items", "i0", "ann", 1.0)])
    asyncio.run(store.close())
    return url


def boards(url: str) -> str:
    reports = reports_of(url)
    options = ModelBoardOptions(since="all"), ItemBoardOptions(since="all")
    documents = [reports.board(one).document() for one in options]
    asyncio.run(reports.store.close())
    return json.dumps(documents)


def mirror_folder(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///") + ".mirror")


def derived(url: str) -> list[Path]:
    """Every file that was made from the log."""
    files = [path for path in mirror_folder(url).rglob("*") if path.is_file()]
    return sorted(path for path in files if path.name != "lock")


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def remove(path: Path, _: random.Random) -> None:
    path.unlink()


Damage = Callable[[Path, random.Random], None]


class _Warnings(logging.Handler):
    """Collects the texts of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def check_damage(url: str, damages: Sequence[Damage], n_times: int) -> int:
    """Damage every derived file so often in each way; return how often. No board may change."""
    right, rng, n = boards(url), random.Random(7), 0
    names = [path.name for path in derived(url)]
    assert {Path(name).suffix for name in names} == {".parquet", ".json"}
    warnings = _Warnings()
    logging.getLogger("peerage").addHandler(warnings)
    try:
        for damage, name, _ in itertools.product(damages, names, range(n_times)):
            warnings.texts.clear()
            damage(mirror_folder(url) / name, rng)
            assert boards(url) == right, f"{damage.__name__} of {name} changed a board"
            if damage is not remove:
                said = any("made again from the log" in text for text in warnings.texts)
                assert said, f"{damage.__name__} of {name} was not noticed"
            n += 1
    finally:
        logging.getLogger("peerage").removeHandler(warnings)
    assert [path.name for path in derived(url)] == names
    return n


def tear_mirrors(folder: Path) -> str:
    """Derived files that are torn, flipped or gone are made again from the log."""
    n = check_damage(filled_store(folder), [flip, cut, remove], 1)
    return f"{n} damaged files made again, 0 boards differ"


# -- a store that is replaced under a server -----------------------------------------------------


def check_replaced(client: httpx.Client, path: Path) -> None:
    """Replace the file of a running server's store: it refuses everything until it is back."""
    assert client.get("/readyz/store").status_code == 200  # it has started
    away = path.with_name("elsewhere.db")
    for replacement in (None, path.with_name("new.db")):
        if replacement is not None:
            asyncio.run(open_store(f"sqlite:///{replacement}").close())
        path.rename(away)
        if replacement is not None:
            replacement.rename(path)
        answer = client.get("/readyz/store")
        assert answer.status_code == 503, answer.text
        assert "deleted or replaced" in answer.json()["detail"]
        assert str(path.parent) not in answer.text
        asked = client.post("/api/sessions", json={"query": "Why?"})
        assert (asked.status_code, client.get("/api/sessions").status_code) == (503, 503)
        opinion = {"item_id": "i", "contributor": "ann", "opinion": 1}
        assert client.post("/api/opinions", json=[opinion]).status_code == 503
        away.rename(path)
        assert client.get("/readyz/store").status_code == 200
        assert client.get("/api/sessions").json()["sessions"] == []


def replace_store(folder: Path) -> str:
    """Do the same to a server in a process of its own."""
    plan = LoadPlan(n_webhooks=0)
    path = folder / "load.db"
    write_panel(folder, plan)
    with (
        serving_load(folder, f"sqlite:///{path}", plan, "") as server,
        httpx.Client(base_url=server.address, timeout=120) as client,
    ):
        check_replaced(client, path)
    return "alive, not ready, 6 requests refused with 503; well again with its file"


TROUBLES: dict[str, Callable[[Path], str]] = {
    "the disk is full": fill_the_disk,
    "the store is read-only": take_rights_away,
    "mirror files are torn": tear_mirrors,
    "the store is replaced under a server": replace_store,
}
