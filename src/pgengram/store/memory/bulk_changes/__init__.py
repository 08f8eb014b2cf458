"""Changes of many memories: which ones, the plan of it, and the yes that was given."""
