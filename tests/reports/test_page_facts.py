"""What pages say of models follows the log: caches are keyed by what they depend on."""

from __future__ import annotations

from peerage import config
from peerage.people import PersonReview, keep_review, next_ballot
from peerage.reports import Reports
from peerage.reports.page_facts import (
    _READ,
    agreements_of,
    facts_of_models,
    gate_failures,
    stored_rows,
)
from peerage.stores import Store, open_store
from tests.small_seasons import hold_season

N = 3


def reports_of(url: str, store: Store) -> Reports:
    reports = Reports(config.load(flags={"store": url}, environ={}))
    vars(reports)["store"] = store
    return reports


def test_a_seat_that_joins_a_season_is_among_the_facts_of_models(store_url: str) -> None:
    hold_season(store_url, "abc")
    store = open_store(store_url)
    before = facts_of_models(store)
    assert {name: one.n_answers for name, one in before.items()} == dict.fromkeys("abc", N)
    hold_season(store_url, "abcd")
    after = facts_of_models(store)
    assert {name: one.n_answers for name, one in after.items()} == dict.fromkeys("abcd", N)
    assert after["a"].n_reviews == 2 * N


def test_only_the_sessions_that_were_asked_for_are_kept(store_url: str) -> None:
    hold_season(store_url, "abc")
    store = open_store(store_url)
    facts_of_models(store, 2)
    gate_failures(store, N)
    assert sorted(len(kept) for kept in _READ[store].values()) == [2, N]
    hold_season(store_url, "abc", season="y")
    facts_of_models(store, 2)
    assert sorted(len(kept) for kept in _READ[store].values()) == [2, N]


def test_a_review_by_a_person_is_among_the_rows_in_memory_at_once(store_url: str) -> None:
    hold_season(store_url, "abc")
    store = open_store(store_url)
    reports = reports_of(store_url, store)
    rows = stored_rows(reports)
    assert rows is not None
    assert "eve" not in rows.names
    ballot = next_ballot(store, "eve")
    assert ballot is not None
    review = PersonReview(ballot=ballot.id, ranking=list(ballot.labels))
    keep_review(store, "eve", review, lambda: 1e9)
    rows = stored_rows(reports)
    assert rows is not None
    assert {one.name for one in agreements_of(rows, "eve")} == set("abc")


def test_a_file_that_is_written_again_under_its_name_is_read_again(store_url: str) -> None:
    hold_season(store_url, "abc")
    reports = reports_of(store_url, open_store(store_url))
    (file,) = reports.review_files()
    assert stored_rows(reports) is stored_rows(reports)
    before = stored_rows(reports)
    copy = file.with_suffix(".copy")
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    assert stored_rows(reports) is not before
