"""Tables made elsewhere: whole or not at all, once, in order, with what is odd about them."""

import asyncio
import json

import duckdb
import pytest

from peerage.errors import InputError
from peerage.imports import KEYS, take
from peerage.reports.stored_reviews import Mirror, list_imported
from peerage.reviews.flags import FROM_ONE
from peerage.stores import open_store

NOW = 1_772_000_000.0


@pytest.fixture
def store(store_url):
    """A new store of each kind in turn."""
    store = open_store(store_url)
    yield store
    asyncio.run(store.close())


def clock():
    return NOW


def rows_of(store, kind):
    """What a store holds of a kind, file by file."""
    found = []
    for path in list_imported(store, Mirror(store.mirror_folder), kind):
        table = duckdb.read_parquet(str(path))
        found += [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    return found


REVIEWS = [
    {"session_id": f"s{i}", "reviewer": r, "candidate": c, "score": i % 7, "extra": "kept"}
    for i in range(20, -1, -1)
    for r in ("x", "y")
    for c in ("a", "b")
]
OPINIONS = [
    {
        "item_id": f"i{i}",
        "contributor": "p",
        "reviewer": f"r{j}",
        "opinion": 1 if (i + j) % 3 else -1,
    }
    for i in range(9)
    for j in range(5)
]
TABLES = {
    "reviews": REVIEWS,
    "opinions": OPINIONS,
    "items": [{"item_id": f"i{i}", "contributor": "p"} for i in range(9)],
    "users": [{"user_id": f"r{i}", "affiliated": i % 2 == 0} for i in range(9)],
}


def write(path, rows):
    """Rows as a file of the kind that its name says."""
    lines = path.with_suffix(".lines.jsonl")
    lines.write_text("\n".join(map(json.dumps, rows)))
    table = duckdb.read_json(str(lines))
    if path.suffix == ".parquet":
        table.write_parquet(str(path))
    elif path.suffix in (".csv", ".tsv"):
        table.write_csv(str(path), sep="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        lines.rename(path)
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "json", "jsonl"])
@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_comes_from_every_format_once(store, tmp_path, kind, suffix):
    file = write(tmp_path / f"table.{suffix}", TABLES[kind])
    taken = take(store, file, kind, clock)
    assert (taken.n, taken.already, taken.flags) == (len(TABLES[kind]), False, ())
    assert take(store, file, kind, clock).already
    held = rows_of(store, kind)
    wanted = sorted(TABLES[kind], key=lambda row: [row[name] for name in KEYS[kind]])
    assert held == [{**row, "at": NOW} for row in wanted]


@pytest.mark.parametrize(
    ("kind", "rows", "says"),
    [
        ("reviews", [{**r, "score": "good"} for r in REVIEWS[:14]], "row 1: score 'good'"),
        ("reviews", [{**r, "rank": 0} for r in REVIEWS[:14]], "below 1"),
        ("reviews", [{**r, "reviewer": None} for r in REVIEWS[:14]], "row 10: "),
        ("reviews", REVIEWS[:14] * 2, "twice in one round"),
        ("reviews", [{**r, "at": "yesterday"} for r in REVIEWS[:14]], "row 10: 'yesterday'"),
        ("opinions", [{**r, "opinion": "meh"} for r in OPINIONS[:14]], "rows 1, 2, 3"),
        ("opinions", [{**r, "opinion": 3} for r in OPINIONS[:14]], "9, 10, …"),
        ("opinions", [{**r, "reviewer": None} for r in OPINIONS[:14]], "9, 10, …"),
        ("opinions", [{**r, "contributor": r["reviewer"]} for r in OPINIONS], "two contributors"),
        ("items", [{"item_id": "i", "contributor": p} for p in "pq"], "'p' and 'q'"),
        ("items", [{"item_id": f"i{k}", "contributor": None} for k in range(12)], "9, 10, …"),
        ("users", [{"user_id": "u", "affiliated": "maybe"}], "'maybe' in row 1"),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_a_wrong_row_refuses_the_whole_file_and_names_it(store, tmp_path, kind, rows, says, suffix):
    file = write(tmp_path / f"table.{suffix}", rows)
    with pytest.raises(InputError) as refused:
        take(store, file, kind, clock)
    assert says in str(refused.value)
    assert str(file) in str(refused.value)
    assert store.imports() == []


def test_rows_of_one_key_keep_the_order_of_the_file(store, tmp_path):
    """Of several opinions with one time the last row stands."""
    said = [1, -1, 1, 1, -1, -1] * 500
    rows = [
        {"item_id": "i", "contributor": "p", "reviewer": f"r{k % 3}", "opinion": o, "place": k}
        for k, o in enumerate(said)
    ]
    take(store, write(tmp_path / "o.csv", rows), "opinions", clock)
    held = rows_of(store, "opinions")
    assert [r["place"] for r in held] == sorted(range(3_000), key=lambda k: (k % 3, k))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_fraction_after_many_whole_numbers_is_not_rounded(store, tmp_path, suffix):
    rows = [{"session_id": f"s{i:05}", "reviewer": "x", "candidate": "a"} for i in range(21_000)]
    text = {
        "csv": "session_id,reviewer,candidate,score,extra\n"
        + "".join(f"{','.join(row.values())},{i % 9},{i}\n" for i, row in enumerate(rows))
        + "t,x,a,7.5,0.25\n",
        "jsonl": "".join(json.dumps({**r, "score": 3, "extra": 4}) + "\n" for r in rows)
        + '{"session_id": "t", "reviewer": "x", "candidate": "a", "score": 7.5, "extra": 0.25}',
    }
    (tmp_path / f"r.{suffix}").write_text(text[suffix])
    take(store, tmp_path / f"r.{suffix}", "reviews", clock)
    last = rows_of(store, "reviews")[-1]
    assert (last["session_id"], last["score"], last["extra"]) == ("t", 7.5, "0.25")


def test_a_later_line_may_name_more_columns_or_write_numbers_as_texts(store, tmp_path):
    rows = [{**REVIEWS[0], "session_id": f"s{i:05}"} for i in range(21_000)]
    rows.append({**REVIEWS[0], "session_id": "t", "score": "8", "mark_tone": 3})
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    take(store, tmp_path / "r.jsonl", "reviews", clock)
    last = rows_of(store, "reviews")[-1]
    assert (last["session_id"], last["score"], last["mark_tone"]) == ("t", 8.0, 3)


@pytest.mark.parametrize(("suffix", "line"), [("csv", "t,x\n"), ("jsonl", '{"session_id": \n')])
def test_lines_that_are_no_rows_are_named(store, tmp_path, suffix, line):
    file = write(tmp_path / f"table.{suffix}", REVIEWS[:5])
    with file.open("a") as out:
        out.write(("" if suffix == "csv" else "\n") + line * 12)
    with pytest.raises(InputError, match=r"line 7: .*, …"):
        take(store, file, "reviews", clock)
    assert store.imports() == []


def test_what_contradicts_the_store_is_refused(store, tmp_path):
    take(store, write(tmp_path / "o.csv", OPINIONS), "opinions", clock)
    take(store, write(tmp_path / "r.csv", REVIEWS), "reviews", clock)
    take(store, write(tmp_path / "u.csv", TABLES["users"]), "users", clock)
    other = [{**row, "contributor": "q"} for row in OPINIONS]
    for name, kind, rows, says in (
        ("o2", "opinions", other, "another contributor in the store: 'i0': 'p' and 'q'"),
        ("i2", "items", [{"item_id": "i3", "contributor": "q"}], "'i3': 'p' and 'q'"),
        ("r2", "reviews", REVIEWS[3:], "in the store already"),
        ("u2", "users", [{"user_id": "r0", "affiliated": False}], "listed twice"),
    ):
        with pytest.raises(InputError, match=says):
            take(store, write(tmp_path / f"{name}.csv", rows), kind, clock)
    assert len(store.imports()) == 3


def test_odd_rows_are_taken_and_flagged(store, tmp_path):
    twice = [{**row, "at": "2026-01-01"} for row in OPINIONS[:12]] * 2
    late = [{**OPINIONS[20], "at": "2030-01-01T00:00:00+05:00"}]
    taken = take(store, write(tmp_path / "o.jsonl", twice + late), "opinions", clock)
    zones, future, repeated = taken.flags
    assert zones == "times_in_several_zones:2: UTC, +05:00"
    assert future == "opinions_in_the_future:1: r0 on i4"
    assert repeated.startswith("opinions_given_twice:12: r0 on i0, r1 on i0, ")
    assert repeated.count(" on ") == 10
    rows = [{**row, "at": NOW + 1} for row in REVIEWS]
    (flag,) = take(store, write(tmp_path / "r.csv", rows), "reviews", clock).flags
    assert flag.startswith("reviews_in_the_future:84: x on a in s0, ")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_time_without_a_zone_is_utc_also_among_others(store, tmp_path, suffix, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    times = ["2026-03-01T12:00:00", "2026-03-01T12:00:00Z", "2026-03-01T14:00:00+02:00"]
    rows = [{**row, "at": at} for row, at in zip(OPINIONS, times, strict=False)]
    take(store, write(tmp_path / f"o.{suffix}", rows), "opinions", clock)
    assert {row["at"] for row in rows_of(store, "opinions")} == {1_772_366_400.0}


@pytest.mark.slow
def test_large_texts_are_taken_too_in_the_order_of_the_file(store, tmp_path):
    """What cannot be sorted in the memory there is stays as it came."""
    duckdb.sql(
        "select 's' || hash(i) as session_id, 'x' as reviewer, 'a' as candidate, i as score,"
        " repeat(md5(i::varchar), 2000) as text from range(6000) t(i)"
    ).write_parquet(str(tmp_path / "r.parquet"))
    assert take(store, tmp_path / "r.parquet", "reviews", clock).n == 6_000
    (path,) = list_imported(store, Mirror(store.mirror_folder), "reviews")
    held = duckdb.read_parquet(str(path)).aggregate("sum(score), min(length(text))").fetchall()
    assert held == [(17_997_000, 64_000)]


def test_an_import_says_what_it_is_doing(store, tmp_path):
    steps = []
    take(store, write(tmp_path / "o.csv", OPINIONS), "opinions", clock, step=steps.append)
    assert steps == ["reading", "checking", "sorting", "storing"]


def test_names_lose_the_spaces_around_them_and_what_that_joins_is_said(store, tmp_path):
    file = tmp_path / "r.csv"
    lines = [
        "session_id,reviewer,candidate,rank,text",
        "s,x,a,1, kept ",
        "s, x,b\u00a0,2,",
        "s,y ,b,1,",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    taken = take(store, file, "reviews", lambda: 5.0)
    told = [flag.split(":", 2) for flag in taken.flags]
    assert [(key, n) for key, n, _ in told] == [("names_that_differed_by_spaces", "1")] * 2
    assert ["'x'" in told[0][2], "'b'" in told[1][2]] == [True, True]
    (path,) = list_imported(store, Mirror(store.mirror_folder), "reviews")
    held = duckdb.read_parquet(str(path)).project("reviewer, candidate, text").fetchall()
    assert held == [("x", "a", " kept "), ("x", "b", None), ("y", "b", None)]


def test_positions_that_count_from_1_are_stored_from_0_and_that_is_said(store, tmp_path):
    (tmp_path / "r.csv").write_text(
        "session_id,reviewer,candidate,rank,position\ns,x,a,1,2\ns,x,b,2,1\n"
    )
    assert FROM_ONE in take(store, tmp_path / "r.csv", "reviews", lambda: 5.0).flags
    (path,) = list_imported(store, Mirror(store.mirror_folder), "reviews")
    held = duckdb.read_parquet(str(path)).project("candidate, position").order("1").fetchall()
    assert held == [("a", 1), ("b", 0)]


def test_a_name_of_nothing_but_spaces_is_no_name(store, tmp_path):
    (tmp_path / "r.csv").write_text("session_id,reviewer,candidate,rank\ns,  ,a,1\n")
    with pytest.raises(InputError, match="`reviewer` is empty"):
        take(store, tmp_path / "r.csv", "reviews", lambda: 5.0)
