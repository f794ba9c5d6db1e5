"""Statistics, each once: correlations, tails of distributions, cluster intervals, rank ranges."""
