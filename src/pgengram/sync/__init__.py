"""Several machines with one memory: what each changed, exchanged as files in a folder that they share."""
