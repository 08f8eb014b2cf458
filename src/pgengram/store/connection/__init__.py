"""Reaching PostgreSQL: pool, roles, transactions, replica."""
