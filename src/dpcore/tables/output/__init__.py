"""Outputs: files that exist completely or not at all, and what they cost."""
