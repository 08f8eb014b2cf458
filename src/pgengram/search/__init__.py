"""Finding memories again: what a question asks, which memories are candidates, how they are ranked."""
