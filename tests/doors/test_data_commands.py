"""`import`, `export`, `board`, `audit` and `rings`, as their user runs them."""

import csv
import json

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
        {"item_id": f"i{i}", "contributor": f"p{i % 3}", "reviewer": f"r{j}", "opinion": o}
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
    assert peerage("board", "models").returncode == 2


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


def test_community_boards_come_from_imported_opinions(peerage, tmp_path):
    file = opinions(tmp_path / "opinions.jsonl")
    assert peerage("import", file, "--as", "opinions").returncode == 0
    board = document(peerage("board", "contributors", "--json"))
    assert {row["contributor"] for row in board["rows"]} == {"p0", "p1", "p2"}
    assert len(document(peerage("board", "reviewers", "--json"))["rows"]) == 5
    assert len(document(peerage("board", "items", "--json"))["rows"]) == 9
    assert "rings" in document(peerage("rings", "--json"))


def test_an_audit_may_fail_a_build(peerage, tmp_path):
    file = reviews(tmp_path / "reviews.csv", n=28)
    assert peerage("audit", "--reviews", file, "--fail-on", "evidence").returncode in (0, 1)
    assert peerage("audit", "--reviews", file, "--fail-on", "vibes").returncode == 2


def test_an_empty_window_is_an_empty_board(peerage, tmp_path):
    file = reviews(tmp_path / "reviews.csv")
    got = document(peerage("board", "models", "--reviews", file, "--as-of", "2020-01-01", "--json"))
    assert got["rows"] == []


def test_a_board_goes_to_csv_parquet_and_a_page(peerage, tmp_path):
    file = reviews(tmp_path / "reviews.csv")
    done = peerage("board", "models", "--reviews", file, "--since", "all", "--csv")
    assert done.stdout.splitlines()[0].startswith("model,")
    base = ("board", "models", "--reviews", file, "--since", "all")
    assert peerage(*base, "--parquet", "b.parquet", "--html", "b.html").returncode == 0
    assert (tmp_path / "b.parquet").read_bytes()[:4] == b"PAR1"
    page = (tmp_path / "b.html").read_text()
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
