"""The processes that measure: a worker for each repeat, the guard over it, and what they tell."""
