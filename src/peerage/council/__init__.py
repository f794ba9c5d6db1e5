"""From answers to ballots, and from what reviewers said to exact scores: pure arithmetic."""
