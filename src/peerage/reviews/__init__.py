"""The reviews table as arrays: blocks of rows, votes, mergeable sums, and their intervals."""
