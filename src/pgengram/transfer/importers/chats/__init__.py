"""Readers of the conversations that assistants keep."""
