"""Statistics: correlations, tails of distributions, cluster intervals, rank ranges."""
