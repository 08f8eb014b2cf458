"""Spaces that several people share: each is asked as one of them sees it, and never without being named in a write."""
