"""The folder in which the commands of documents run: a panel, seasons, and the files they name.

Everything is simulated or written here, and made once; each document gets a copy of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyarrow.csv import read_csv  # type: ignore[import-untyped]
from pyarrow.parquet import write_table as write_parquet  # type: ignore[import-untyped]

from peerage import Council
from tests.shared.foreign_files import (
    Grade,
    Pair,
    Ranking,
    document,
    lines,
    table,
    write_alpaca_eval,
    write_arena,
    write_arena_hard,
    write_council,
    write_deepeval,
    write_inspect,
    write_inspect_archive,
    write_langfuse,
    write_lm_eval,
    write_mlflow,
    write_mt_bench,
    write_open_webui,
    write_openai_evals,
    write_peereval,
    write_promptfoo,
)
from tests.shared.waiting import wait_until

ROOT = Path(__file__).parents[2]
Peerage: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

QUALITIES = {"sonnet": 8.0, "gpt": 6.0, "gemini": 5.0, "old": 5.5, "new": 7.5}
JUDGING = ["answer", "review", "chair"]
ROLES = {name: ["answer"] if name in ("old", "new") else JUDGING for name in QUALITIES}
N_PROMPTS = 36
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
JUDGES = ("human1", "human2", "human3", "robot")
PAIRS = [
    Pair(query, "gpt", "sonnet", judge, ("first", "second", "second")[(query + n) % 3])
    for query in range(8)
    for n, judge in enumerate(JUDGES)
]
GRADES = [
    Grade(query, "sonnet", judge, float(5 + (query + n) % 4))
    for query in range(8)
    for n, judge in enumerate(JUDGES)
]
MORE_GRADES = [
    *GRADES,
    *(Grade(one.query, "gpt", one.judge, (one.score or 5.0) - 1.0) for one in GRADES),
]
NAMES = ("gemini", "gpt", "sonnet")
RANKINGS = [Ranking(query, judge, NAMES[::-1]) for query in range(6) for judge in JUDGES]

# Files of other tools, by the name that the page of their format gives them.
FOREIGN: dict[str, bytes] = {
    "annotations.json": write_alpaca_eval(PAIRS),
    "judgement.jsonl": write_arena_hard(PAIRS),
    "votes.csv": write_arena(PAIRS),
    "conversation.json": document(json.loads(write_council(RANKINGS, NAMES))[0]),
    "test_run.json": write_deepeval(GRADES),
    "logs/2026-01-01_task.eval": write_inspect_archive(GRADES),
    "logs/2026-01-02_task.json": write_inspect(MORE_GRADES[len(GRADES) :]),
    "scores.json": write_langfuse(MORE_GRADES),
    "samples_gsm8k_2026-01-01T00-00-00.jsonl": write_lm_eval(GRADES),
    "traces.jsonl": write_mlflow(MORE_GRADES),
    "gpt-4_pair.jsonl": write_mt_bench(PAIRS),
    "feedback.json": write_open_webui(PAIRS),
    "output_items.json": write_openai_evals(MORE_GRADES),
    "judgments.jsonl": write_peereval(PAIRS),
    "results.json": write_promptfoo(MORE_GRADES),
}
OPINIONS_OF_PEERBENCH = table(
    [
        {"id": n, "user_id": f"u{n % 5}", "prompt_id": f"p{n % 4}", "opinion": opinion}
        for n, opinion in enumerate(["positive", "negative", "positive", "positive"] * 5)
    ]
)
PROMPTS_OF_PEERBENCH = table(
    [{"id": f"p{n}", "creator_id": f"u{n}", "question": f"question {n}"} for n in range(4)]
)


def configuration(qualities: Mapping[str, float] = QUALITIES) -> str:
    """A panel of simulated seats with the names that the documents use."""
    seats = (
        f'[[seat]]\nname = "{name}"\nmodel = "{name}-1"\nprovider = "simulated"\n'
        f"images = {str(name == 'gpt').lower()}\nroles = {ROLES[name]}\n"
        f"options = {{ quality = {quality} }}\n"
        for name, quality in qualities.items()
    )
    return "[council]\nseed = 7\n" + "".join(seats)


def prompts(words: str) -> bytes:
    categories = ("coding", "science", "writing")
    return lines(
        {"id": f"{words}{n}", "query": f"{words} {n}?", "category": categories[n % 3]}
        for n in range(N_PROMPTS)
    )


@dataclass(frozen=True)
class World:
    """A filled folder, and the ids of what is stored in it."""

    folder: Path
    seasons: tuple[str, ...]  # of prompts.jsonl, of other prompts, of prompts.jsonl again
    sessions: tuple[str, ...]  # asked one by one, in order; the last one was interrupted


def build_world(folder: Path, peerage: Peerage) -> World:
    """Fill a folder with files and a store, by the commands that a user would type."""

    def run(*words: str) -> str:
        done = peerage(*words, cwd=folder)
        assert done.returncode == 0, (words, done.stderr)
        return str(done.stdout)

    write_files(folder)
    run("import", "earlier.csv")
    run("import", "people.csv", "--as", "users")
    seasons = [json.loads(run("run", "prompts.jsonl", "--json"))["season"]]
    run("move", "--to", "sqlite:///old.db")
    for name in ("march.jsonl", "other.jsonl"):
        run("export", name, "--as", "lines")
    seasons += [json.loads(run("run", "more.jsonl", "--json"))["season"]]
    again = run("run", "prompts.jsonl", "--no-resume", "--json")
    seasons += [json.loads(again)["season"]]
    asked = ("Why is a rainbow round?", "Is a tomato a fruit?", "Is a whale a fish?")
    sessions = [json.loads(run("ask", question, "--json"))["id"] for question in asked]
    run("move", "--to", "sqlite:///new.db")
    sessions.append(asyncio.run(interrupted_session(folder)))
    run("export", "april.jsonl", "--as", "lines")
    for name in ("reviews.csv", "reviews.parquet"):
        run("export", "--reviews", name)
    return World(folder, tuple(seasons), tuple(sessions))


async def interrupted_session(folder: Path) -> str:
    """The id of a session that ended after its first event."""
    flags = {"store": f"sqlite:///{folder / 'peerage.db'}"}
    async with Council.from_config(folder / "peerage.toml", flags=flags) as council:
        events = council.run("Is a bat a bird?")
        opened = await anext(events)
        await events.aclose()
    return opened.session_id


def write_files(folder: Path) -> None:
    """Write what is no store: the configuration, prompts, judgements, opinions and images."""
    for name, data in {**FOREIGN, **OURS}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    for name in ("earlier", "opinions"):
        rows = read_csv(folder / f"{name}.csv")
        write_parquet(rows, folder / f"{name}.parquet")
    (folder / "earlier.parquet").rename(folder / "pandalm.parquet")
    (folder / "docs").symlink_to(ROOT / "docs")


OURS: dict[str, bytes] = {
    "peerage.toml": configuration().encode(),
    "prompts.jsonl": prompts("what"),
    "more.jsonl": prompts("why"),
    "photo.png": PNG,
    "chart.png": PNG,
    "mail.txt": b"I was charged twice. Please help.\n",
    "people.csv": table([{"user_id": "human1", "affiliated": 1}]),
    "earlier.csv": table(
        [
            {
                "session_id": f"e{one.query}",
                "reviewer": one.judge,
                "candidate": one.candidate,
                "score": one.score,
                "person": int(one.judge.startswith("human")),
            }
            for one in MORE_GRADES
        ]
    ),
    "wide.csv": table(
        [
            {"question": query, "model": name, "ann": query % 5, "bob": (query * n) % 5}
            for query in range(8)
            for n, name in enumerate(NAMES)
        ]
    ),
    "opinions.csv": table(
        [
            {
                "item_id": f"i{item}",
                "contributor": f"u{item % 5}",
                "reviewer": f"u{reader}",
                "opinion": 1 if (item * reader) % 3 else -1,
            }
            for item in range(20)
            for reader in range(12)
            if item % 5 != reader
        ]
    ),
    "grades.csv": table(
        [
            {
                "question": one.query,
                "judge": one.judge,
                "model": one.candidate,
                "points": one.score,
            }
            for one in MORE_GRADES
        ]
    ),
}


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a document in some language."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


# Files that a page shows, or whose names stand for another format on that page.
FILES_BY_PAGE: dict[str, dict[str, bytes]] = {
    "docs/messages.md": {"answers.json": blocks("docs/messages.md", "json")[0].encode()},
    "docs/formats/peerbench.md": {
        "prompts.csv": PROMPTS_OF_PEERBENCH,
        "reviews.csv": OPINIONS_OF_PEERBENCH,
    },
    "docs/formats/sessions.md": {"ballots.json": blocks("docs/ballots.md", "json")[0].encode()},
}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server over the store of a folder, in a process that ends with the block."""
    said = folder / "server.log"
    environ = {k: v for k, v in os.environ.items() if not k.startswith("PEERAGE_")}
    with said.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "peerage", "serve", "--port", "0"],
            cwd=folder,
            stderr=log,
            env={**environ, "XDG_CACHE_HOME": str(folder / "cache")},
        )
    try:
        wait_until(lambda: "listening on " in said.read_text("utf-8"), process)
        yield said.read_text("utf-8").partition("listening on ")[2].split(",")[0].split()[0]
    finally:
        process.terminate()
        process.wait(60)
