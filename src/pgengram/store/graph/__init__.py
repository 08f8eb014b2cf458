"""Links between memories, and clusters of them."""
