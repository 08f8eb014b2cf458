"""One store on several machines, with Citus."""
