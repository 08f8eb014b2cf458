"""PostgreSQL: the pool, one owner's transactions, the statements and the schema."""
