"""What a server answers programs of the same user: hooks of assistants, and commands."""
