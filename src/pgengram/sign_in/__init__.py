"""Sign-in for clients that take no pasted token: an authorization server for a store's owner."""
