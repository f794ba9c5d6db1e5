"""The example package of docs/extending.md, used through the command line as an installed one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from peerage import plugins
from tests.forked import Forks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
Points = Mapping[str, Mapping[str, str]]
Run = Callable[..., subprocess.CompletedProcess[str]]

NAMES = ("able", "baker", "charlie")
SEATS = "".join(f'[[seat]]\nname = "{name}"\nprovider = "echo"\n' for name in NAMES)
LABELS = {f"Response {label}": name for label, name in zip("ABC", NAMES, strict=True)}
RANKINGS = {"able": "BCA", "baker": "CAB", "charlie": "BAC"}
BALLOTS = {
    "label_to_model": LABELS,
    "rankings": [
        {"model": name, "parsed_ranking": {"ranking": [f"Response {label}" for label in labels]}}
        for name, labels in RANKINGS.items()
    ],
}


def install(folder: Path, points: Points, name: str = "peerage-example") -> None:
    """What an installer leaves behind: the package's metadata with its entry points."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    lines = [
        line
        for group, by_name in points.items()
        for line in (f"[{group}]", *(f"{point} = {value}" for point, value in by_name.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the example installed in it."""
    folder = tmp_path / "site"
    install(folder, PROJECT["entry-points"])
    (folder / "peerage_example").symlink_to(HERE / "peerage_example")
    return folder


@pytest.fixture
def peerage(tmp_path: Path, site: Path, forks: Forks) -> Run:
    """Runs `peerage` in a folder of its own, with the site on its path."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PEERAGE_", "LLM_"))}
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "own")  # where consent is kept
    environ["PYTHONPATH"] = os.pathsep.join([str(site), environ.get("PYTHONPATH", "")])

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return forks.run(words, cwd=tmp_path, env=environ)

    return run


def document(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Forty sessions of three reviewers, one of whom is hard on short answers."""
    rows = [
        {
            "session_id": f"s{i:02}",
            "reviewer": reviewer,
            "candidate": candidate,
            "score": 5 + (i * 7 + 3 * k + len(reviewer)) % 4 - 3 * (reviewer == "hard" and not k),
            "words": 40 if k == 0 else 400,
        }
        for i in range(40)
        for reviewer in ("hard", "fair", "even")
        for k, candidate in enumerate(("short", "long", "longer"))
    ]
    file = tmp_path / "reviews.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


def test_the_document_shows_the_package_in_full() -> None:
    shown = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w+\n(.*?)^```", shown, re.MULTILINE | re.DOTALL)
    files = [HERE / "pyproject.toml", *sorted((HERE / "peerage_example").glob("*.py"))]
    for file in files:
        if file.name != "__init__.py":
            assert file.read_text(encoding="utf-8") in blocks, f"{file.name} reads otherwise"


def test_the_package_imports_nothing_of_ours_but_peerage_plugins() -> None:
    files = (HERE / "peerage_example").glob("*.py")
    text = "\n".join([BAD, *(file.read_text(encoding="utf-8") for file in files)])
    assert set(re.findall(r"(?m)^(?:from|import) (peerage[\w.]*)", text)) == {"peerage.plugins"}


def test_every_name_of_peerage_plugins_is_there_and_in_the_document() -> None:
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    _, _, listed = text.partition("| for | names |")
    assert sorted(re.findall(r"`(\w+)`", listed)) == sorted(plugins.__all__)
    assert all(getattr(plugins, name) is not None for name in plugins.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = plugins.nothing


def test_a_rule_scores_ballots(peerage: Run, tmp_path: Path) -> None:
    (tmp_path / "ballots.json").write_text(json.dumps(BALLOTS), encoding="utf-8")
    done = document(peerage("score", "ballots.json", "--rule", "first_places", "--json"))
    values = {row["model"]: row["value"] for row in done["scores"]}  # type: ignore[attr-defined]
    assert values == {"able": 0.0, "baker": 1.0, "charlie": 0.5}


def test_a_rule_ranks_a_board_and_is_compared_with_the_others(peerage: Run, reviews: Path) -> None:
    asked = ("board", "models", "--reviews", reviews, "--since", "all", "--json")
    board = document(peerage(*asked, "--rule", "first_places", "--compare-rules"))
    assert board["rule"] == "first_places"
    compared = [one["rule"] for one in board["rules"]]  # type: ignore[attr-defined]
    assert compared[0] == "borda"
    assert compared[-1] == "first_places"


def test_a_bias_is_in_the_audit_with_its_own_thresholds(
    peerage: Run, reviews: Path, tmp_path: Path
) -> None:
    def hard() -> dict[str, object]:
        audit = document(peerage("audit", "--reviews", reviews, "--json"))
        (found,) = [
            one
            for one in audit["findings"]  # type: ignore[attr-defined]
            if (one["metric"], one["subject"]) == ("short_answers", "hard")
        ]
        return dict(found)

    assert (hard()["n_min"], hard()["status"]) == (30, "evidence")
    (tmp_path / "peerage.toml").write_text("[audit.n_min]\nshort_answers = 50\n", encoding="utf-8")
    assert (hard()["n_min"], hard()["status"] != "evidence") == (50, True)


def test_providers_a_moderator_and_a_store_hold_a_session(peerage: Run, tmp_path: Path) -> None:
    council = '[council]\nsafety_gate = true\nmoderator = "no_passwords"\nverdict = "none"\n'
    store = f'store = "folder:///{tmp_path / "archive"}"\n'
    (tmp_path / "peerage.toml").write_text(store + council + SEATS, encoding="utf-8")
    refused = peerage("ask", "My password: swordfish", "--json")
    assert refused.returncode == 2
    assert "peerage trust" in refused.stderr  # it is a program of others
    assert peerage("trust", "--yes").returncode == 0
    session = document(peerage("ask", "My password: swordfish", "--json"))
    assert (tmp_path / "archive" / "sessions.db").exists()
    gates = session["safety_gate"]["results"]  # type: ignore[index]
    assert {gate["pattern"] for gate in gates.values()} == {"password"}
    listed = document(peerage("sessions", "--json"))
    assert len(listed["sessions"]) == 1  # type: ignore[arg-type]


def test_a_format_is_recognised_and_read(peerage: Run, tmp_path: Path) -> None:
    grades = [
        {"task": f"t{i}", "grader": grader, "solver": solver, "grade": 5 + (solver == "ann")}
        for i in range(3)
        for grader in ("x", "y")
        for solver in ("ann", "bob")
    ]
    file = tmp_path / "grades.jsonl"
    file.write_text("\n".join(map(json.dumps, grades)), encoding="utf-8")
    board = document(peerage("board", "models", file, "--json"))
    assert [row["model"] for row in board["rows"]] == ["ann", "bob"]  # type: ignore[attr-defined]
    file.write_text(json.dumps({**grades[0], "solver": None}), encoding="utf-8")
    refused = peerage("import", file, "--as", "gradebook")
    assert refused.returncode == 2
    assert "`solver` is missing or is not a name" in refused.stderr


BROKEN = {
    "peerage.rules": {"raises": "bad:RAISES", "odd": "bad:ODD", "gone": "no_such_module:RULE"},
    "peerage.biases": {"careless": "bad:CARELESS", "bare": "bad:BARE"},
    "peerage.providers": {"function": "bad:values"},
    "peerage.moderators": {"text": "bad:TEXT"},
    "peerage.stores": {"text": "bad:TEXT"},
}
BAD = """
from peerage.plugins import Metric, Rule

def values(placings, candidates):
    return {name: 1 / 0 for name in candidates}

def nothing(*_):
    raise RuntimeError("out of ink")

RAISES = Rule("raises", values)
ODD = Rule("odd", lambda placings, candidates: {"nobody": "much"})
CARELESS = Metric("careless", (), nothing, nothing, n_min=1, healthy=1.0)
BARE = Metric("bare", (), nothing, nothing)
TEXT = "text"
"""


@pytest.fixture
def broken(site: Path) -> None:
    """A second package, with nothing in it that works."""
    install(site, BROKEN, "bad-plugin")
    (site / "bad.py").write_text(BAD, encoding="utf-8")


def test_what_a_broken_rule_costs_is_its_own_row(peerage: Run, broken: None, reviews: Path) -> None:
    asked = ("board", "models", "--reviews", reviews, "--since", "all", "--json")
    done = peerage(*asked, "--compare-rules")
    rules = {one["rule"]: one for one in document(done)["rules"]}  # type: ignore[attr-defined]
    assert rules["first_places"]["rows"]
    assert "'raises' of the package bad-plugin failed (ZeroDivisionError" in rules["raises"]["note"]
    assert "'odd' of the package bad-plugin failed" in rules["odd"]["note"]
    assert "gone" not in rules
    assert done.stderr.count("'gone' of the package bad-plugin could not be loaded") == 1
    alone = peerage(*asked, "--rule", "raises")
    assert alone.returncode == 2
    assert "'raises' of the package bad-plugin failed" in alone.stderr
    assert "Traceback" not in alone.stderr


def test_what_a_broken_bias_costs_is_its_own_finding(
    peerage: Run, broken: None, reviews: Path
) -> None:
    done = peerage("audit", "--reviews", reviews, "--json")
    by_metric = {one["metric"]: one for one in document(done)["findings"]}  # type: ignore[attr-defined]
    assert by_metric["short_answers"]["value"] is not None
    assert by_metric["calibration"]["value"] is not None
    assert by_metric["careless"]["status"] == "not_identifiable"
    assert "bad-plugin failed (RuntimeError: out of ink)" in by_metric["careless"]["note"]
    assert "bare" not in by_metric
    assert done.stderr.count("'bare' of the package bad-plugin could not be loaded") == 1


@pytest.mark.parametrize(
    ("toml", "kind"),
    [
        ('[[seat]]\nname = "a"\nprovider = "function"\n', "provider 'function'"),
        (f'[council]\nsafety_gate = true\nmoderator = "text"\n{SEATS}', "moderator 'text'"),
        (f'store = "text:///x"\n{SEATS}', "store 'text'"),
    ],
)
def test_asking_for_a_broken_plugin_says_whose_it_is(
    peerage: Run, broken: None, tmp_path: Path, toml: str, kind: str
) -> None:
    (tmp_path / "peerage.toml").write_text(toml, encoding="utf-8")
    done = peerage("ask", "Why?", "--config", "peerage.toml")
    assert done.returncode == 2
    assert f"the {kind} of the package bad-plugin could not be loaded" in done.stderr
    assert "Traceback" not in done.stderr
