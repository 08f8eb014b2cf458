"""What a caller asks, read as it is meant: names, values, dates, words; and checked."""
