"""Secrets in text: what they look like, and how they are taken out."""
