"""Clients that come over HTTP: their tokens, and how often they may call."""
