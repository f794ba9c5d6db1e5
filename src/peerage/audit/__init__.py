"""Is a reviewer biased, and how would we know? One bias a file."""
