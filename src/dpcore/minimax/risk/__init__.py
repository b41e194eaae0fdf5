"""Risks of estimators, exact or simulated, and the distributions where they are largest."""
