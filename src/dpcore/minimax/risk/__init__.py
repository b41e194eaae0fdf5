"""Risks of estimators, exact or simulated, and the distributions at which they are largest."""
