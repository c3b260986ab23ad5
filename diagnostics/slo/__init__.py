"""Service level objectives: what is promised, how much of the budget is spent, and on which causes."""
