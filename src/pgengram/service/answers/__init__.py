"""What is answered: hits, contexts, memories whole, and receipts of what was changed."""
