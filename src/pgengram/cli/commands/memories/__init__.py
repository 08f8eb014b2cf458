"""Commands about single memories, conversations and projects."""
