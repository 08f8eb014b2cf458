"""What a person types: `pgengram COMMAND`."""
