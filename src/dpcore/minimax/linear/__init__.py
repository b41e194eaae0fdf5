"""Linear estimators: means of bounded functions of one-bit reports."""
