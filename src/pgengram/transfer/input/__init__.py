"""What an import reads: files, folders, zips and SQLite databases, piece by piece."""
