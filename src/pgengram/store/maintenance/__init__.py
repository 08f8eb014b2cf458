"""Keeping a store in order: indexes, postings, embedding models, namespaces."""
