"""Whether a judge may be relied on: one of three words, with the reason."""

from __future__ import annotations

from peerage.findings import Advice, Bounded
from peerage.labels.pass_rates import FEWEST_GROUPS
from peerage.labels.rates import complement, rate
from peerage.reviews.cells import Floats, Ints

RELIED_ON = 0.8  # both rates of a judge that may be trusted are at least this
POOR = 0.7  # a judge of which a rate is surely below this is not relied on


def advice_on_verdicts(judge: Floats, people: Floats, group: Ints) -> tuple[Advice, str]:
    """Return one of three words for a judge that says pass (1) or fail (0), with the reason."""
    lows, parts = [], []
    for label, name in (
        (0.0, "passes {} of what people fail"),
        (1.0, "fails {} of what people pass"),
    ):
        of_class = people == label
        hits = judge[of_class] == label
        one_sided, right = rate(hits, group[of_class], 0.9), rate(hits, group[of_class])
        wrong = complement(right)
        if one_sided is None or right is None or wrong is None:
            continue
        part = f"it {name.format(percent(wrong))}"
        if (right.high or 0.0) < POOR:
            return "do_not_rely_on", f"{part}."
        lows.append(one_sided.low or 0.0)
        parts.append(part)
    if len(parts) < 2:
        return "use_with_care", "people's labels are all alike, so half of its errors are unseen."
    sentence = f"{parts[0]}, and {parts[1].removeprefix('it ')}."
    if min(lows) >= RELIED_ON:
        return "trust", sentence
    return (
        "use_with_care",
        f"{sentence} To be trusted, both must surely be below {1 - RELIED_ON:.0%}.",
    )


def advice_on_share(share: Bounded | None, what: str) -> tuple[Advice | None, str]:
    """Return one of three words for a share of agreement, with the reason."""
    if share is None or share.low is None or share.high is None:
        return None, "people make no difference between these answers."
    sentence = f"{what} {percent(share)} alike."
    if share.high < POOR:
        return "do_not_rely_on", sentence
    if share.low >= RELIED_ON:
        return "trust", sentence
    return "use_with_care", f"{sentence} To be trusted, it must surely be at least {RELIED_ON:.0%}."


def too_early(n_groups: int) -> str:
    """Return the reason why there is no advice yet."""
    unit = "query" if n_groups == 1 else "queries"
    return (
        f"people labelled answers to {n_groups} {unit}; "
        f"at least {FEWEST_GROUPS} are needed to advise."
    )


def percent(share: Bounded) -> str:
    """Return a share with its interval in words, as in "41% (33–50%)"."""
    if share.low is None or share.high is None:
        return f"{share.value:.0%}"
    return f"{share.value:.0%} ({100 * share.low:.0f}–{share.high:.0%})"
