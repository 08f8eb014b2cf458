"""What synchronisation keeps in the database: what was changed, what is known of it, and which files were read."""
