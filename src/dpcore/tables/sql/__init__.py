"""Expressions of SQL over one row: checked text, and its values for the rows of a batch; look-ups in public tables."""
