"""Records on their way into the store: checked, compared with what is here, and stored a batch at a time."""
