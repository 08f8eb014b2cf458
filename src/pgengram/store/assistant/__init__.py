"""What an assistant keeps for itself: identity, beliefs, working memories."""
