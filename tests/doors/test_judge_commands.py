"""Anchors and passports as a user meets them: by commands, with simulated judges."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.shared.waiting import wait_until

N_ANCHORS = 20


def write_panel(folder: Path, **harshness: float) -> None:
    """Write a panel of judges who hardly err, each with its harshness."""
    seats = [
        f'[[seat]]\nname = "{name}"\nprovider = "simulated"\nroles = ["review"]\n'
        f"[seat.options]\nnoise = 0.3\nharshness = {value}\n"
        for name, value in harshness.items()
    ]
    (folder / "peerage.toml").write_text(
        '[council]\nverdict = "none"\nrubric = false\n' + "".join(seats)
    )


def write_prompts(folder: Path, n: int, name: str = "p.jsonl") -> str:
    rows = [
        {"id": f"q{i}", "query": f"Question {i}?", "answers": {m: f"{m} says {i}" for m in "abc"}}
        for i in range(n)
    ]
    (folder / name).write_text("\n".join(map(json.dumps, rows)))
    return name


def hold(peerage: Any, folder: Path, n: int) -> str:
    """Run a season of answers that are given; return its id."""
    write_panel(folder, x=0, y=0, z=0)
    done = peerage("run", write_prompts(folder, n), "--json")
    return str(json.loads(done.stdout)["season"])


@pytest.mark.slow
def test_a_judge_that_changes_is_named_by_the_next_checks(peerage: Any, tmp_path: Path) -> None:
    none = peerage("anchors", "check")
    assert none.returncode == 2
    season = hold(peerage, tmp_path, N_ANCHORS)
    no_anchor = peerage("anchors")
    assert no_anchor.returncode == 2
    assert "no session is an anchor yet" in no_anchor.stderr
    assert f"{N_ANCHORS} anchors of season" in peerage("anchors", "set", season[:6]).stdout
    steady = [peerage("anchors", "check", "--quiet") for _ in range(4)]
    assert [done.returncode for done in steady] == [0] * 4
    write_panel(tmp_path, x=3, y=0, z=0)
    changed = [peerage("anchors", "check", "--json") for _ in range(2)]
    report = json.loads(changed[-1].stdout)
    status = {one["judge"]: one["status"] for one in report["judges"]}
    assert (changed[-1].returncode, status) == (1, {"x": "changed", "y": "steady", "z": "steady"})
    (change,) = report["judges"][0]["changes"]
    assert change["since"] == 5
    assert change["shift"] == pytest.approx(-3, abs=0.5)
    told = peerage("anchors")
    assert told.stdout.startswith("## x changed: marks -")
    assert "fingerprint changed at check 5: options" in told.stdout
    board = json.loads(peerage("board", "models", "--json").stdout)
    assert board["reviews"] == N_ANCHORS * 9  # checks are not counted on boards


def test_anchors_whose_answers_are_gone_are_left_out_and_none_left_is_refused(
    peerage: Any, tmp_path: Path
) -> None:
    season = hold(peerage, tmp_path, 3)
    peerage("anchors", "set", season)
    for n_gone, code in ((1, 0), (3, 2)):
        with sqlite3.connect(tmp_path / "peerage.db") as log:
            ids = log.execute("SELECT DISTINCT session_id FROM events ORDER BY 1").fetchall()
            texts = "SELECT rowid, body FROM events WHERE kind = 'answered' AND session_id = ?"
            for (id_,) in ids[:n_gone]:
                for row, body in log.execute(texts, (id_,)).fetchall():
                    bare = json.dumps({**json.loads(body), "text": ""})
                    log.execute("UPDATE events SET body = ? WHERE rowid = ?", (bare, row))
        done = peerage("anchors", "check")
        assert done.returncode == code, done.stderr
        if code == 0:
            assert "1 anchor left out: the answers are gone." in done.stdout
    assert "the answers of all 3 anchors are gone" in done.stderr


@pytest.mark.slow
def test_a_passport_is_reproduced_elsewhere_and_expires_with_its_fingerprint(
    peerage: Any, tmp_path: Path
) -> None:
    hold(peerage, tmp_path, 3)
    assert peerage("passport", "x", "--output", "x.json").returncode == 0
    same = peerage("verify", "x.json")
    assert (same.returncode, same.stdout.partition(":")[0]) == (0, "reproduced")
    peerage("export", "copy")
    peerage("import", "copy", "--store", "sqlite:///second.db")
    assert peerage("verify", "x.json", "--store", "sqlite:///second.db").returncode == 0
    with sqlite3.connect(tmp_path / "second.db") as log:
        kinds = "SELECT rowid, session_id, body FROM events WHERE kind = 'reviewed'"
        row, session, body = log.execute(kinds).fetchone()
        changed = json.loads(body)
        label = next(iter(changed["review"]["scores"]))
        changed["review"]["scores"][label] += 1
        log.execute("UPDATE events SET body = ? WHERE rowid = ?", (json.dumps(changed), row))
    refused = peerage("verify", "x.json", "--store", "sqlite:///second.db")
    assert refused.returncode == 1
    assert refused.stdout.startswith("refused:")
    assert session in refused.stdout
    write_panel(tmp_path, x=1, y=0, z=0)
    peerage("run", write_prompts(tmp_path, 1, "more.jsonl"))
    expired = peerage("verify", "x.json", "--json")
    told = json.loads(expired.stdout)
    assert (expired.returncode, told["status"]) == (1, "expired")
    assert "its fingerprint was" in told["differences"][0]
    assert peerage("passport", "nobody").returncode == 2


def n_checks(url: str) -> int:
    with urlopen(f"{url}/api/anchors", timeout=60) as reply:  # noqa: S310 - our own server
        return len(json.load(reply)["checks"])


@pytest.mark.slow
def test_a_server_checks_the_anchors_by_itself(peerage: Any, tmp_path: Path) -> None:
    season = hold(peerage, tmp_path, 3)
    peerage("anchors", "set", season)
    command = [sys.executable, "-m", "peerage", "serve", "--port", "0", "--every", "1d"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=peerage.environ, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            line = next(line for line in server.stderr if "listening on" in line)
            url = line.split("listening on ")[1].split(",")[0]
            assert wait_until(lambda: n_checks(url), server) == 1
        finally:
            server.terminate()
            server.wait(20)
