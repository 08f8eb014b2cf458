"""Text as it is compared and searched; what is stored is never changed."""
