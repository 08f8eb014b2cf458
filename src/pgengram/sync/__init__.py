"""Several machines with one memory: what each changed, exchanged as encrypted files."""
