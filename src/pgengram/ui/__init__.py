"""A page on this machine to look at what is remembered, and to put it right."""
