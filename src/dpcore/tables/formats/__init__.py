"""Formats of files and tables, and how each is read."""
