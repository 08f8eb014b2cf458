"""PostgreSQL: the pool, one namespace's transactions, the statements and the schema."""
