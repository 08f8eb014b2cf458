"""The tables, and bringing a database up to them."""
