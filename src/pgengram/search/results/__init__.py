"""What a search finds: hits, how well they fit, how many are told, and where to go on."""
