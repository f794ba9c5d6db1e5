"""Lengths of answers: a few extreme ones count as the next inwards, and the rest stays."""

from __future__ import annotations

import numpy as np
import pytest

from peerage.biases.many_sessions import plan
from peerage.findings import AuditLimits, Finding
from peerage.reviews.comparisons import LOG_WORDS, length_limits, log_words
from tests.shared.encoded import audit_rows, limited, rows_of
from tests.shared.one_scale import PANEL
from tests.shared.simulated_reviews import Planted, simulated_reviews


def limits(words: list[float]) -> tuple[float, float]:
    candidate, n = np.zeros(len(words), dtype=np.int64), np.ones(len(words))
    found = length_limits(candidate, np.array(words), n, 1)
    return float(found.low[0]), float(found.high[0])


def test_the_outermost_hundredth_at_either_end_is_drawn_in() -> None:
    assert limits([float(i) for i in range(1000)]) == (10.0, 989.0)
    assert limits([4.0, 4.0, *range(100, 1100)]) == (108.0, 1089.0)


def test_of_few_answers_one_outermost_length_is_drawn_in() -> None:
    assert limits([1.0, *range(50, 80), 9_000.0]) == (50.0, 79.0)


@pytest.mark.parametrize("words", [[], [100.0] * 500, [100.0, 200.0] * 50, [np.nan] * 20])
def test_of_few_different_lengths_none_is_an_outlier(words: list[float]) -> None:
    assert limits(words) == (-np.inf, np.inf)


def test_limits_are_of_each_candidate_and_words_stay_as_they_are() -> None:
    columns = simulated_reviews(PANEL, Planted(), 1)
    rows = rows_of(columns)
    drawn = limited(rows)
    assert np.array_equal(drawn.numbers["words"], rows.numbers["words"])
    kept, plain = drawn.numbers[LOG_WORDS], log_words(rows)
    assert plain is not None
    assert log_words(drawn) is kept
    for who in range(len(rows.names)):
        mine = rows.candidate == who
        moved = np.abs(kept - plain)[mine] > 1e-12
        assert 0.005 < moved.mean() < 0.03


def test_two_answers_of_hardly_any_words_hide_no_taste_for_length() -> None:
    columns = simulated_reviews(PANEL, Planted(length_by={"c": 0.5}), 3)
    clean = _taste(columns)
    words = columns["words"].astype(np.float64)
    odd = np.isin(columns["session_id"], ["s000003", "s000090"]) & (columns["candidate"] == "b")
    found = _taste({**columns, "words": np.where(odd, 0.0, words)})
    assert clean.status == found.status == "evidence"
    assert found.value == pytest.approx(clean.value, rel=0.1)


def _taste(columns: dict[str, np.ndarray]) -> Finding:
    found = audit_rows(rows_of(columns), plan(tuple(columns), "score"), AuditLimits())
    return next(o for o in found.findings if (o.metric, o.subject) == ("length_relative", "c"))
