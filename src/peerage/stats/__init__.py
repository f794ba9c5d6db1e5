"""The one home of statistics: one Pearson, one bootstrap, one of each.

What a single session needs is plain Python and loads at once; the rest, on numpy, is loaded
when first used. Undefined is None; inside an array of statistics it is NaN.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from peerage.stats.correlations import (
    correlation,
    correlation_from_sums,
    correlation_p,
    correlations_from_sums,
    fisher_interval,
)
from peerage.stats.tails import (
    benjamini_hochberg,
    normal_critical,
    normal_p,
    student_t_p,
    t_critical,
    wilson_interval,
)

if TYPE_CHECKING:
    from peerage.stats.agreement import (
        alpha_of_marks,
        kendall_tau,
        kendall_w,
        krippendorff_alpha,
        midranks,
        spearman,
        weighted_kappa,
    )
    from peerage.stats.clusters import (
        Estimate,
        cluster_interval,
        delta_interval,
        quotient,
        ratio_influences,
        ratio_interval,
    )
    from peerage.stats.permutations import (
        BlockTest,
        block_permutation_test,
        permutation_test,
        within_blocks,
    )
    from peerage.stats.ranking import normal_draws, sign_flip_ranks, simultaneous_ranks, tiers
    from peerage.stats.resampling import (
        bootstrap_totals,
        bucketed,
        cluster_bootstrap,
        draws_estimate,
        generator,
        poisson_bootstrap,
        poisson_weights,
    )

HOMES = {
    "agreement": (
        "alpha_of_marks",
        "kendall_tau",
        "kendall_w",
        "krippendorff_alpha",
        "midranks",
        "spearman",
        "weighted_kappa",
    ),
    "clusters": (
        "Estimate",
        "cluster_interval",
        "delta_interval",
        "quotient",
        "ratio_influences",
        "ratio_interval",
    ),
    "permutations": (
        "BlockTest",
        "block_permutation_test",
        "permutation_test",
        "within_blocks",
    ),
    "ranking": ("normal_draws", "sign_flip_ranks", "simultaneous_ranks", "tiers"),
    "resampling": (
        "bootstrap_totals",
        "bucketed",
        "cluster_bootstrap",
        "draws_estimate",
        "generator",
        "poisson_bootstrap",
        "poisson_weights",
    ),
}
HOME_BY_NAME = {name: home for home, names in HOMES.items() for name in names}

__all__ = [
    "BlockTest",
    "Estimate",
    "alpha_of_marks",
    "benjamini_hochberg",
    "block_permutation_test",
    "bootstrap_totals",
    "bucketed",
    "cluster_bootstrap",
    "cluster_interval",
    "correlation",
    "correlation_from_sums",
    "correlation_p",
    "correlations_from_sums",
    "delta_interval",
    "draws_estimate",
    "fisher_interval",
    "generator",
    "kendall_tau",
    "kendall_w",
    "krippendorff_alpha",
    "midranks",
    "normal_critical",
    "normal_draws",
    "normal_p",
    "permutation_test",
    "poisson_bootstrap",
    "poisson_weights",
    "quotient",
    "ratio_influences",
    "ratio_interval",
    "sign_flip_ranks",
    "simultaneous_ranks",
    "spearman",
    "student_t_p",
    "t_critical",
    "tiers",
    "weighted_kappa",
    "wilson_interval",
    "within_blocks",
]

if not TYPE_CHECKING:  # hidden from the type checker, so that a misspelt name is still an error

    def __getattr__(name: str) -> Any:
        if name not in HOME_BY_NAME:
            raise AttributeError(f"module 'peerage.stats' has no attribute {name!r}")
        return getattr(import_module(f"peerage.stats.{HOME_BY_NAME[name]}"), name)
