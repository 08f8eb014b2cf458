"""The Model Context Protocol: the only package that knows it."""
