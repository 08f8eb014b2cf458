"""The times that a question names, in several languages."""
