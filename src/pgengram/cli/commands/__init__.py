"""The commands for memories and servers."""
