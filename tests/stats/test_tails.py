"""Tails and critical values against scipy, corrections against scipy and by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from peerage.stats.tails import (
    benjamini_hochberg,
    f_tail,
    normal_critical,
    normal_p,
    student_t_p,
    t_critical,
)

probabilities = st.floats(0.0, 1.0)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 8, 17.3, 30, 79, 81, 300, 2000, 9999, 10001, 1e6])
@pytest.mark.parametrize("t", [0.01, 0.4, 1.0, 1.7, 1.75, 2.5, 4.0, 9.0, 25.0])
def test_t_tail_is_scipys_to_twelve_digits(df: float, t: float) -> None:
    expected = 2.0 * scipy_stats.t.sf(t, df)
    assert student_t_p(t, df) == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert student_t_p(-t, df) == student_t_p(t, df)


@pytest.mark.parametrize("t", [1e-12, 1e-8, 1e-4, 0.3, 7.0, 1e6, 1e12])
def test_t_tail_with_one_degree_is_the_arctangent(t: float) -> None:
    """The closed form keeps its digits for a t close to zero, where scipy's tail does not."""
    assert student_t_p(t, 1) == pytest.approx(2.0 * math.atan(1.0 / t) / math.pi, rel=1e-12)


def test_t_tail_has_its_limits() -> None:
    assert student_t_p(0.0, 5) == 1.0
    assert student_t_p(math.inf, 5) == 0.0
    assert student_t_p(-math.inf, 5) == 0.0
    assert student_t_p(1e200, 1) == 0.0
    assert student_t_p(math.nan, 5) is None
    assert student_t_p(1.0, 0) is None
    assert student_t_p(1.0, -1) is None
    assert student_t_p(1.0, math.nan) is None


@given(st.floats(0.0, 50.0), st.floats(0.0, 50.0), st.floats(0.5, 1e7))
def test_a_larger_t_is_never_more_likely(one: float, other: float, df: float) -> None:
    near, far = (student_t_p(t, df) for t in sorted((one, other)))
    assert near is not None
    assert far is not None
    assert 0.0 <= far <= near * (1 + 1e-11) <= 1.0 + 1e-11


@pytest.mark.parametrize("df", [1, 2, 3, 7, 19, 30.5, 100, 9999, 10001, 1e7])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9, 0.95, 0.99, 0.999999])
def test_critical_t_is_scipys(df: float, level: float) -> None:
    assert t_critical(level, df) == pytest.approx(scipy_stats.t.isf((1 - level) / 2, df), rel=1e-9)


def test_critical_t_with_infinite_degrees_is_the_normal_one() -> None:
    assert t_critical(0.95, math.inf) == normal_critical(0.95) == pytest.approx(1.959963984540054)


@given(st.floats(0.001, 0.999), st.floats(0.7, 1e6))
def test_critical_t_inverts_the_tail(level: float, df: float) -> None:
    assert student_t_p(t_critical(level, df), df) == pytest.approx(1 - level, rel=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 2.0, math.nan])
def test_an_impossible_level_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        t_critical(level, 3)
    with pytest.raises(ValueError, match="level"):
        normal_critical(level)


def test_critical_t_needs_degrees_of_freedom() -> None:
    with pytest.raises(ValueError, match="degrees"):
        t_critical(0.95, 0)


@given(st.floats(-35.0, 35.0))
def test_normal_tail_is_scipys(z: float) -> None:
    assert normal_p(z) == pytest.approx(2.0 * scipy_stats.norm.sf(abs(z)), rel=1e-12)


@given(st.lists(probabilities, min_size=1, max_size=60))
def test_q_values_are_scipys(ps: list[float]) -> None:
    expected = scipy_stats.false_discovery_control(ps)
    assert benjamini_hochberg(ps) == pytest.approx(expected.tolist(), rel=1e-12, abs=1e-300)


@given(st.lists(st.none() | probabilities, max_size=40))
def test_an_unknown_p_does_not_count_among_the_tests(ps: list[float | None]) -> None:
    """A finding without a test neither gets a q nor costs the others."""
    qs = benjamini_hochberg(ps)
    assert [q is None for q in qs] == [p is None for p in ps]
    known = benjamini_hochberg([p for p in ps if p is not None])
    assert [q for q in qs if q is not None] == known


@given(st.lists(probabilities, min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_q_values_do_not_depend_on_the_order(ps: list[float], random: object) -> None:
    order = list(range(len(ps)))
    random.shuffle(order)  # type: ignore[attr-defined]
    qs = benjamini_hochberg(ps)
    assert benjamini_hochberg([ps[place] for place in order]) == [qs[place] for place in order]


def test_a_p_outside_0_to_1_is_refused() -> None:
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="probability"):
            benjamini_hochberg([0.5, wrong])


@pytest.mark.parametrize(("f", "df", "within"), [(3.0, 4, 20), (0.5, 2, 5), (10.0, 3, 8.5)])
def test_the_tail_of_f_is_scipys(f, df, within) -> None:
    assert f_tail(f, df, within) == pytest.approx(scipy_stats.f.sf(f, df, within), rel=1e-10)


@given(t=st.floats(0.01, 30.0), df=st.floats(1.0, 5_000.0))
def test_f_of_one_degree_is_t_squared(t: float, df: float) -> None:
    assert f_tail(t * t, 1.0, df) == pytest.approx(student_t_p(t, df), rel=1e-8, abs=1e-12)


def test_f_without_degrees_or_value_is_none() -> None:
    assert f_tail(1.0, 0.0, 5.0) is None
    assert f_tail(float("nan"), 1.0, 5.0) is None
    assert f_tail(0.0, 2.0, 5.0) == 1.0
    assert f_tail(1e300, 2.0, 5.0) == 0.0
