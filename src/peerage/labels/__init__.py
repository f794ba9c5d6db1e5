"""Judges against people's labels: agreement, corrected pass rates, and what may be relied on."""
