"""Tail probabilities, critical values and corrections for many tests; standard library only.

This module does not import numpy, because the audit of one session needs only one tail of t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import NormalDist

NORMAL = NormalDist()
NEAR_NORMAL = 10_000.0  # degrees of freedom above which Hill's approximation is exact enough
ROUNDING = 1e-16
MAX_STEPS = 1_000
N_HALVINGS = 60
LARGEST = 1e12
LARGEST_LOG = 700.0
MOST_SIGNS = 1_000  # of which a tail is counted in whole numbers; of more it is a sum of floats
FAR_ENOUGH = 8.0  # from here on an asymptotic series has ten digits


def normal_p(z: float) -> float:
    """Return the two-sided p of a standard normal value z."""
    return math.erfc(abs(z) / math.sqrt(2.0))


def normal_critical(level: float) -> float:
    """Return the z such that a standard normal value lies within ±z with probability `level`."""
    _check_level(level)
    return -NORMAL.inv_cdf((1.0 - level) / 2.0)


def student_t_p(t: float, df: float) -> float | None:
    """Return the two-sided p of Student's t; None if t is NaN or df is not positive."""
    if not df > 0 or math.isnan(t):
        return None
    ratio = t / math.sqrt(df)  # squared only below, so that a huge t cannot overflow
    if abs(ratio) > 1e150:
        return 0.0
    odds = ratio * ratio
    return beta_tail(1.0 / (1.0 + odds), odds / (1.0 + odds), df)


def beta_tail(x: float, y: float, df: float) -> float:
    """Return the regularised incomplete beta function I_x(df/2, 1/2); y is 1 − x.

    It is the two-sided tail of t for x = df / (df + t²), and that of a correlation for
    y = r². The caller passes both x and y, because 1 − x loses digits if x is close to one.
    """
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 1.0
    log_x = math.log1p(-y) if y < 0.5 else math.log(x)
    if df > NEAR_NORMAL:
        return normal_p(_hill(-log_x, df))
    a = df / 2.0
    front = math.exp(a * log_x) * math.sqrt(y / math.pi) * _gamma_ratio(a)
    if x < (a + 1.0) / (a + 2.5):
        return min(1.0, front * _beta_fraction(a, 0.5, x) / a)
    return max(0.0, 1.0 - 2.0 * front * _beta_fraction(0.5, a, y))


def f_tail(f: float, df: float, df_within: float) -> float | None:
    """Return the probability that an F statistic is at least f; None if that is undefined.

    `df` are the degrees of freedom between groups, `df_within` those within. More than 10,000
    within count as 10,000, which makes the tail slightly too heavy.
    """
    if not df > 0 or not df_within > 0 or math.isnan(f):
        return None
    if f <= 0.0:
        return 1.0
    a, b = min(df_within, NEAR_NORMAL) / 2.0, df / 2.0
    odds = f * b / a
    if not odds < 1e150:
        return 0.0
    return _beta(1.0 / (1.0 + odds), odds / (1.0 + odds), a, b)


def _beta(x: float, y: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b); y is 1 − x."""
    if x <= 0.0 or y <= 0.0:
        return float(y <= 0.0)
    gammas = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(gammas + a * math.log(x) + b * math.log(y))
    if x < (a + 1.0) / (a + b + 2.0):
        return min(1.0, front * _beta_fraction(a, b, x) / a)
    return max(0.0, 1.0 - front * _beta_fraction(b, a, y) / b)


def beta_tail_below(x: float, a: float, b: float) -> float:
    """Return the probability that a value of Beta(a, b) is at most x."""
    return _beta(x, 1.0 - x, a, b)


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x below which a value of Beta(a, b) lies with probability p.

    Newton's method, with bisection where a step would leave the interval that holds x.
    """
    _check_level(p)
    log_scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    low, high, x = 0.0, 1.0, a / (a + b)
    for _ in range(N_HALVINGS):
        gap = _beta(x, 1.0 - x, a, b) - p
        low, high = (low, x) if gap > 0.0 else (x, high)
        log_density = log_scale + (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x)
        step = gap * math.exp(-log_density) if log_density > -LARGEST_LOG else math.inf
        following = x - step
        if not low < following < high:
            following = (low + high) / 2.0
        if abs(following - x) <= 1e-14 * x or following in (0.0, 1.0):
            break
        x = following
    return x


def exact_bounds(k: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Return Clopper and Pearson's interval for a share of k in n, which need not be whole."""
    tail = (1.0 - level) / 2.0
    low = 0.0 if k <= 0.0 else beta_quantile(tail, k, n - k + 1.0)
    high = 1.0 if k >= n else beta_quantile(1.0 - tail, k + 1.0, n - k)
    return low, high


@lru_cache(maxsize=4096)
def f_critical(alpha: float, df: float, df_within: float) -> float:
    """Return the F that is exceeded with probability alpha."""
    _check_level(alpha)
    return _crossing(lambda f: -(f_tail(f, df, df_within) or 0.0), -alpha)


@lru_cache(maxsize=4096)
def noncentral_f_size(f: float, df: float, df_within: float, power: float) -> float:
    """Return the noncentrality at which F exceeds f with probability `power` (Patnaik's method)."""
    _check_level(power)

    def power_at(size: float) -> float:
        wider = 1.0 + size / df
        return f_tail(f / wider, (df + size) ** 2 / (df + 2.0 * size), df_within) or 0.0

    return _crossing(power_at, power)


def _crossing(rising: Callable[[float], float], wanted: float) -> float:
    """Return the argument at which an increasing function reaches `wanted`, by bisection."""
    low, high = 0.0, 1.0
    while rising(high) < wanted and high < LARGEST:
        low, high = high, 2.0 * high
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high


def trigamma(x: float) -> float:
    """Return the second derivative of log Γ at x > 0: the variance of the log of a Γ(x) variable.

    The recurrence ψ′(x) = ψ′(x + 1) + 1/x² leads to values for which the asymptotic series holds.
    """
    total = 0.0
    while x < FAR_ENOUGH:
        total += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
    return total + (1.0 + 0.5 / x + series) / x


def _gamma_ratio(a: float) -> float:
    """Return Γ(a + ½) / Γ(a); for large a by its asymptotic series."""
    if a < 40.0:
        return math.gamma(a + 0.5) / math.gamma(a)
    b = 1.0 / a
    tail = b * (5 / 1024 + b * (-21 / 32768 + b * (-399 / 262144 + b * (869 / 4194304))))
    return math.sqrt(a) * (1.0 + b * (-1 / 8 + b * (1 / 128 + tail)))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for step in range(1, MAX_STEPS):
        twice = a + 2 * step
        for term in (
            step * (b - step) * x / ((twice - 1.0) * twice),
            -(a + step) * (a + b + step) * x / (twice * (twice + 1.0)),
        ):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + term / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1.0) <= ROUNDING:
            break
    return value


def _hill(log_odds: float, df: float) -> float:
    """Return the normal z with the same tail as t, from log(1 + t²/df): Hill's Algorithm 395."""
    a = df - 0.5
    b = 48.0 * a * a
    y = a * log_odds
    top = ((-0.4 * y - 3.3) * y - 24.0) * y - 85.5
    return math.sqrt(y) * (1.0 + (y + 3.0 + top / (0.8 * y * y + 100.0 + b)) / b)


@lru_cache(maxsize=4096)
def t_critical(level: float, df: float) -> float:
    """Return the t such that a value of Student's t lies within ±t with probability `level`.

    For infinite degrees of freedom this is the normal z.
    """
    _check_level(level)
    if not df > 0:
        raise ValueError(f"degrees of freedom must be positive, not {df}")
    if math.isinf(df):
        return normal_critical(level)
    log_tail = math.log1p(-level)
    log_scale = math.log(2.0 * _gamma_ratio(df / 2.0) / math.sqrt(df * math.pi))
    u, last_step = math.log(normal_critical(level)), math.inf
    for _ in range(MAX_STEPS):
        # Newton's method on log p as a function of log t: concave, so it converges from above.
        t = math.exp(u)
        p = student_t_p(t, df) or 0.0
        log_density = log_scale - (df + 1.0) / 2.0 * math.log1p(t * t / df)
        step = (math.log(p) - log_tail) * p / (t * math.exp(log_density))
        u += step
        # Steps that no longer shrink come from rounding errors in p.
        if abs(step) < 1e-14 or last_step <= abs(step) < 1e-9:
            break
        last_step = abs(step)
    return math.exp(u)


def sign_test_p(k: int, n: int) -> float:
    """Return the exact one-sided p of a sign test: that at least k of n fair coins show heads."""
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} signs")
    if n <= MOST_SIGNS:
        return sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n
    log_all = math.lgamma(n + 1) - n * math.log(2.0)
    logs = (log_all - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(k, n + 1))
    return min(1.0, math.fsum(map(math.exp, logs)))


def benjamini_hochberg(ps: Sequence[float | None]) -> list[float | None]:
    """Return the q-value of each p-value, in the same order; None stays None and is not counted."""
    known = [(p, place) for place, p in enumerate(ps) if p is not None]
    for p, _ in known:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{p} is not a probability")
    known.sort(reverse=True)
    qs: list[float | None] = [None] * len(ps)
    least = 1.0
    for above, (p, place) in enumerate(known):
        least = min(least, p * len(known) / (len(known) - above))
        qs[place] = least
    return qs


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"a level must be between 0 and 1, not {level}")
