"""What callers can do with memories: the manager, the tools, and what they stand on."""
