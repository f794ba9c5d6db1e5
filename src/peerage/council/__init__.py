"""From answers to ballots, and from reviewers' replies to exact scores: pure functions."""
