"""Reading what is not a search: history, lists to choose from, everything for an export."""
