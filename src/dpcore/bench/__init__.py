"""Timing beside peers and bounds, and the table that shows it."""
