"""`import`, `export`, `board`, `audit` and `rings`, as their user runs them."""

import csv
import json
import re
import sqlite3

import pytest


def document(done, code=0):
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def reviews(path, n=12, **changes):
    rows = [
        {
            "session_id": f"s{i}",
            "reviewer": reviewer,
            "candidate": candidate,
            "score": 9 - k + (i + len(reviewer)) % 2,
            "position": (k + i) % 3,
            "words": 50 + 10 * k + i,
            "category": f"c{i % 2}",
            "at": f"2026-03-{i + 1:02}T12:00:00Z",
            **changes,
        }
        for i in range(n)
        for reviewer in ("x", "yy", "zzz")
        for k, candidate in enumerate(("a", "b", "c"))
    ]
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def opinions(path):
    rows = [
        {
            "item_id": f"i{i}",
            "contributor": f"p{i % 3}",
            "reviewer": f"r{j}",
            "opinion": o,
            "category": "c",
            "at": 1_772_000_000 + i,
        }
        for i in range(9)
        for j in range(5)
        for o in [1 if (i * 7 + j) % 4 else -1]
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_imported_reviews_give_a_board_and_an_audit(peerage, tmp_path):
    file = reviews(tmp_path / "reviews.csv")
    (taken,) = document(peerage("import", file, "--as", "reviews", "--json"))["imported"]
    assert (taken["n"], taken["already"]) == (108, False)
    board = document(peerage("board", "models", "--since", "all", "--json"))
    assert [row["model"] for row in board["rows"]] == ["a", "b", "c"]
    assert document(peerage("audit", "--json"))["findings"]


def test_importing_the_same_file_again_changes_nothing(peerage, tmp_path):
    file = reviews(tmp_path / "reviews.csv")
    peerage("import", file, "--as", "reviews")
    before = document(peerage("board", "models", "--since", "all", "--json"))
    (taken,) = document(peerage("import", file, "--as", "reviews", "--json"))["imported"]
    assert taken["already"]
    assert document(peerage("board", "models", "--since", "all", "--json")) == before


def test_reviews_that_another_file_brought_are_refused(peerage, tmp_path):
    peerage("import", reviews(tmp_path / "one.csv"), "--as", "reviews")
    done = peerage("import", reviews(tmp_path / "two.csv", n=3), "--as", "reviews")
    assert done.returncode == 2
    assert "already" in done.stderr


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("session_id,reviewer\ns,x\n", "reviews", "candidate"),
        ("session_id,reviewer,candidate,score\ns,x,a,1\ns,x,a,2\n", "reviews", "twice"),
        ("session_id,reviewer,candidate,rank\ns,x,a,0\n", "reviews", "below 1"),
        ("session_id,reviewer,candidate,score\ns,x,a,good\n", "reviews", "not a number"),
        ("item_id,reviewer,opinion\ni,r,1\n", "opinions", "contributor"),
        ("item_id,contributor,reviewer,opinion\ni,p,r,5\n", "opinions", "5"),
        ("item_id\ni\n", "items", "contributor"),
        ("nothing\n1\n", "users", "user_id"),
    ],
)
def test_a_file_with_a_mistake_is_refused_whole(peerage, tmp_path, text, kind, says):
    (tmp_path / "bad.csv").write_text(text)
    done = peerage("import", "bad.csv", "--as", kind)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_an_export_comes_back_as_the_same_store(peerage, panel, tmp_path):
    panel([{"name": n, "provider": "simulated"} for n in "abc"], seed=7)
    peerage("ask", "Why?")
    peerage("import", reviews(tmp_path / "reviews.csv"), "--as", "reviews")
    assert peerage("export", "out").returncode == 0
    other = ("--store", "sqlite:///other.db")
    assert peerage("import", "out", *other).returncode == 0
    for command in (("sessions",), ("board", "models", "--since", "all"), ("audit",)):
        assert peerage(*command, "--json", *other).stdout == peerage(*command, "--json").stdout
    assert peerage("export", "again", *other).returncode == 0
    for file in sorted((tmp_path / "out").iterdir()):
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_community_boards_go_to_a_page_and_to_parquet(at_once, tmp_path):
    file = opinions(tmp_path / "opinions.jsonl")
    for board in ("contributors", "reviewers", "items"):
        files = ("--parquet", f"{board}.parquet", "--html", f"{board}.html")
        done = at_once("board", board, "--opinions", file, *files, "--csv")
        assert done.returncode == 0, done.stderr
        assert f"wrote {board}.html" in done.stderr
        assert (tmp_path / f"{board}.parquet").read_bytes()[:4] == b"PAR1"
        assert "<svg" in (tmp_path / f"{board}.html").read_text()
    done = at_once("board", "items", "--opinions", file, "--html", "nowhere/x.html")
    assert (done.returncode, "folder does not exist" in done.stderr) == (2, True)


def test_community_boards_come_from_imported_opinions(peerage, tmp_path):
    file = opinions(tmp_path / "opinions.jsonl")
    assert peerage("import", file, "--as", "opinions").returncode == 0
    board = document(peerage("board", "contributors", "--json"))
    assert {row["contributor"] for row in board["rows"]} == {"p0", "p1", "p2"}
    assert len(document(peerage("board", "reviewers", "--json"))["rows"]) == 5
    assert len(document(peerage("board", "items", "--json"))["rows"]) == 9
    assert "rings" in document(peerage("rings", "--json"))


def test_an_audit_may_fail_a_build(at_once, tmp_path):
    file = reviews(tmp_path / "reviews.csv", n=28)
    assert at_once("audit", "--reviews", file, "--fail-on", "evidence").returncode in (0, 1)
    assert at_once("audit", "--reviews", file, "--fail-on", "vibes").returncode == 2


EMPTY = {
    "reviews": "session_id,reviewer,candidate,score,category,at\n",
    "opinions": "item_id,contributor,reviewer,opinion,category,at\n",
}
BOARDS = {
    "models": "reviews",
    "contributors": "opinions",
    "reviewers": "opinions",
    "items": "opinions",
}


@pytest.mark.parametrize("board", BOARDS)
def test_an_empty_store_is_an_empty_board_and_a_hint(peerage, board):
    done = peerage("board", board)
    assert done.returncode == 0
    assert "rank" in done.stdout or "quality" in done.stdout
    assert f"the store has no {BOARDS[board]} yet" in done.stderr
    done = peerage("board", board, "--csv", "--category", "x")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
    done = peerage("board", board, "--json", "--quiet")
    assert (document(done)["rows"], done.stderr) == ([], "")


@pytest.mark.parametrize("board", BOARDS)
def test_an_empty_table_an_empty_window_and_an_unknown_category_are_empty_boards(
    at_once, tmp_path, board
):
    kind = BOARDS[board]
    (tmp_path / "empty.csv").write_text(EMPTY[kind])
    full = reviews(tmp_path / "r.csv") if kind == "reviews" else opinions(tmp_path / "o.jsonl")
    asked = [(tmp_path / "empty.csv",), (tmp_path / "empty.csv", "--category", "x")]
    asked += [(full, "--category", "nobody's")]
    asked += [(full, "--as-of", "2020-01-01")] if board in ("models", "reviewers") else []
    for file, *more in asked:
        done = at_once("board", board, f"--{kind}", file, *more, "--json")
        assert document(done)["rows"] == [], more


def test_no_opinions_have_no_rings(peerage, at_once, tmp_path):
    done = peerage("rings")
    assert done.returncode == 0
    assert "No ring" in done.stdout
    assert "no opinions yet" in done.stderr
    (tmp_path / "empty.csv").write_text(EMPTY["opinions"])
    for more in ((), ("--category", "x")):
        done = at_once("rings", "--opinions", "empty.csv", *more, "--json")
        assert document(done)["rings"] == []


@pytest.mark.parametrize("command", [("board", "models", "--reviews"), ("rings", "--opinions")])
def test_a_file_that_is_not_there_is_an_error(at_once, command):
    for name in ("none.csv", "none.parquet"):
        done = at_once(*command, name)
        assert done.returncode == 2
        assert name in done.stderr


def test_an_option_of_another_board_is_refused(at_once):
    """Each board knows its own options only, and its help lists no other."""
    for board, option in (("items", "--matrix"), ("items", "--all"), ("models", "--half-life")):
        done = at_once("board", board, option, "3")
        assert done.returncode == 2
        assert f"Unknown option: {option}" in done.stderr
        assert option not in at_once("board", board, "--help").stdout


def test_an_import_of_no_file_makes_no_store(at_once, tmp_path):
    done = at_once("import", "none.csv", "--as", "reviews")
    assert done.returncode == 2
    assert "none.csv: the file does not exist." in done.stderr
    assert not list(tmp_path.glob("*.db"))


def test_an_argument_too_many_is_refused_in_our_words(at_once):
    done = at_once("rings", "table.csv")
    assert done.returncode == 2
    assert "unexpected argument 'table.csv': rings takes no arguments." in done.stderr
    assert "--opinions FILE" in done.stderr
    assert "unexpected argument 'b'. Try `peerage show --help`" in at_once("show", "a", "b").stderr


def test_a_board_that_is_misspelt_is_named_also_beside_options(at_once):
    for more in ((), ("--store", "sqlite:///x.db"), ("--json",)):
        done = at_once("board", "model", *more)
        assert done.returncode == 2
        assert "there is no board 'model'. Did you mean 'models'?" in done.stderr


def test_odd_times_are_flagged_by_name_on_community_boards(peerage, at_once, tmp_path):
    """Three zones, one time without any, one in the future."""
    times = ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00+02:00", "2026-03-01T12:00:00-0530"]
    times += ["2026-03-01T12:00:00", "2199-01-01T00:00:00Z"]
    lines = [f"i,p,r{k},1,{at}" for k, at in enumerate(times)]
    text = "item_id,contributor,reviewer,opinion,at\n" + "\n".join(lines) + "\n"
    (tmp_path / "odd.csv").write_text(text)
    flags = [
        "opinions_in_the_future:1: r4 on i",
        "times_in_several_zones:3: -05:30, UTC, +02:00",
    ]
    for board in ("contributors", "reviewers", "items"):
        got = document(at_once("board", board, "--opinions", "odd.csv", "--json"))
        assert got["flags"] == flags
    assert document(at_once("rings", "--opinions", "odd.csv", "--json"))["flags"] == flags
    shown = " ".join(at_once("board", "items", "--opinions", "odd.csv").stdout.split())
    assert re.search(r"flag 1 opinion [^:]*future[^:]*: r4 on i", shown)
    assert "flag 3 time zones" in shown
    (taken,) = document(peerage("import", "odd.csv", "--as", "opinions", "--json"))["imported"]
    assert set(taken["flags"]) == set(flags)
    assert document(peerage("board", "items", "--json"))["flags"] == flags[:1]


def test_a_file_whose_later_rows_break_its_promise_is_refused_with_its_lines(at_once, tmp_path):
    rows = "".join(f"s{i},x,a,{i % 9}\n" for i in range(25_000))
    head = "session_id,reviewer,candidate,score\n"
    (tmp_path / "late.csv").write_text(head + rows + "t,x,a,good\n")
    (tmp_path / "torn.csv").write_text(head + rows + "t,x\n")
    for command in (("board", "models", "--reviews"), ("audit", "--reviews")):
        done = at_once(*command, "late.csv")
        assert (done.returncode, "row 25001: score 'good'" in done.stderr) == (2, True)
        done = at_once(*command, "torn.csv")
        assert (done.returncode, "line 25002: 't,x'" in done.stderr) == (2, True)


def test_a_board_goes_to_csv_parquet_and_a_page(at_once, tmp_path):
    file = reviews(tmp_path / "reviews.csv")
    done = at_once("board", "models", "--reviews", file, "--since", "all", "--csv")
    assert done.stdout.splitlines()[0].startswith("model,")
    base = ("board", "models", "--reviews", file, "--since", "all")
    assert at_once(*base, "--parquet", "b.parquet", "--html", "b.html").returncode == 0
    assert (tmp_path / "b.parquet").read_bytes()[:4] == b"PAR1"
    page = (tmp_path / "b.html").read_text()
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_two_files_of_comparisons_are_imported_side_by_side(peerage, tmp_path):
    row = {"model_a": "able", "model_b": "baker", "winner": "model_a", "at": "2026-03-01T12:00:00Z"}
    for name, winners in (("one", ["model_a", "tie"]), ("two", ["model_b", "model_a"])):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("\n".join(json.dumps({**row, "winner": winner}) for winner in winners))
        (taken,) = document(peerage("import", file, "--as", "reviews", "--json"))["imported"]
        assert taken["n"] == 4
    asked = ("board", "models", "--rule", "bradley_terry", "--since", "all", "--json")
    board = document(peerage(*asked))
    assert (board["sessions"], board["reviews"]) == (4, 8)
    assert [(row["model"], row["total_wins"]) for row in board["rows"]] == [
        ("able", 2),
        ("baker", 1),
    ]
    file.write_text(json.dumps({**row, "winner": "neither"}))
    done = peerage("import", file, "--as", "reviews")
    assert done.returncode == 2
    assert "`winner` cannot be neither" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["sessions", "board models", "board items", "audit", "rings", "show x", "replay x", "export d"],
)
def test_a_store_that_is_not_there_is_an_error_for_reading_commands(at_once, tmp_path, command):
    done = at_once(*command.split(), "--store", "sqlite:///nowhere.db")
    assert done.returncode == 2
    assert re.search(r"nowhere\.db: .*--store", done.stderr)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["sessions", "board models", "board items", "show x", "rings"])
def test_reading_where_nothing_was_stored_yet_makes_no_file(at_once, tmp_path, command):
    done = at_once(*command.split())
    assert "yet" in done.stdout + done.stderr or "there is no session 'x'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_reviews_are_exported_as_one_table(peerage, tmp_path):
    peerage("import", reviews(tmp_path / "r.csv"), "--as", "reviews")
    done = peerage("export", "--reviews", "all.csv", "--json")
    assert document(done) == {"reviews": 108}
    here = peerage("board", "models", "--since", "all", "--json").stdout
    peerage("import", "all.csv", "--as", "reviews", "--store", "sqlite:///b.db")
    there = peerage("board", "models", "--since", "all", "--json", "--store", "sqlite:///b.db")
    assert document(there)["rows"] == json.loads(here)["rows"]
    refused = peerage("export", "--reviews", "all.txt")
    assert (refused.returncode, "Known: .parquet, .csv, .jsonl" in refused.stderr) == (2, True)
    assert "Name a folder" in peerage("export").stderr


@pytest.mark.slow
def test_two_people_who_import_one_file_export_the_same_reviews(peerage, tmp_path):
    """A review without a time stays without one: the moment of the import is not its time."""
    (tmp_path / "r.csv").write_text(
        "session_id,reviewer,candidate,rank,at\ns,r,x,1,\ns,r,y,2,\nt,r,x,2,1700000000\nt,r,y,1,9\n"
    )
    (tmp_path / "v.csv").write_text("model_a,model_b,winner\nx,y,model_a\nx,y,tie\n")
    ballot = {
        "label_to_model": {"Response A": "x", "Response B": "y"},
        "rankings": [{"model": "r", "parsed_ranking": ["Response B", "Response A"]}],
    }
    (tmp_path / "b.json").write_text(json.dumps(ballot))
    for name in ("ann", "bob"):
        store = ("--store", f"sqlite:///{name}.db")
        for file in ("r.csv", "v.csv", "b.json"):
            assert peerage("import", file, *store).returncode == 0
        assert peerage("export", name, *store).returncode == 0
        peerage("export", f"{name}.jsonl", "--as", "lines", "--reviews", f"{name}.csv", *store)
    peerage("merge", "ann.jsonl", "bob.jsonl", "--to", "one.jsonl")
    peerage("merge", "bob.jsonl", "ann.jsonl", "--to", "two.jsonl")
    lines = {(tmp_path / f"{name}.jsonl").read_bytes() for name in ("ann", "bob", "one", "two")}
    assert len(lines) == 1
    rows = [json.loads(line) for line in lines.pop().splitlines()]
    assert {row.get("at") for row in rows if row["session_id"] in "st"} == {None, 1_700_000_000, 9}
    assert (tmp_path / "ann.csv").read_bytes() == (tmp_path / "bob.csv").read_bytes()
    tables = [sorted((tmp_path / name).glob("*.parquet")) for name in ("ann", "bob")]
    assert len(tables[0]) == 2
    assert [file.read_bytes() for file in tables[0]] == [file.read_bytes() for file in tables[1]]


@pytest.mark.parametrize("command", ["sessions", "ask Why?", "export d", "board models"])
def test_a_store_of_a_newer_version_is_refused_with_what_to_do(at_once, panel, tmp_path, command):
    panel([{"name": name, "provider": "simulated"} for name in "abc"])
    db = sqlite3.connect(tmp_path / "peerage.db")
    db.execute("CREATE TABLE events (id)")
    db.execute("PRAGMA application_id = 1346717010")
    db.execute("PRAGMA user_version = 999")
    db.close()
    done = at_once(*command.split())
    assert done.returncode == 2
    assert "this store has version 999" in done.stderr
    assert "Update peerage, or choose another file with --store." in done.stderr


def test_a_board_is_the_same_from_the_store_that_another_was_moved_to(peerage, store_url, tmp_path):
    file = reviews(tmp_path / "reviews.csv")
    peerage("import", file, "--as", "reviews", "--store", "sqlite:///old.db")
    moved = document(peerage("move", "--store", "sqlite:///old.db", "--to", store_url, "--json"))
    assert (moved["imports"], moved["events"]) == (1, 0)
    assert "sesame" not in moved["to"]
    old, new = (
        document(peerage("board", "models", "--since", "all", "--json", "--store", store))
        for store in ("sqlite:///old.db", store_url)
    )
    assert old == new
    again = peerage("move", "--store", "sqlite:///old.db", "--to", store_url)
    assert again.returncode == 2
    assert "not empty" in again.stderr
    assert "sesame" not in again.stderr
