"""Words: how text is split, in which language it is, and what its words say of it."""
