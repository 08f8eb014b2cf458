"""Readers of the stores and exports of other memory servers."""
