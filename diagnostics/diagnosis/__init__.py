"""The rule engine: run the checks, share out the claims, link causes, rank, judge the window."""
