"""How alike two texts are, and where they differ."""
