"""Writing memories: storing, changing, merging, deleting."""
