"""People, the spaces that they share, and who may do what there; all of it the login's alone."""
