"""The reviews table as arrays: blocks of rows, votes, sums that add, and their intervals."""
