"""The exact tier: samples and probabilities as real numbers, in Python integers of any size. docs/exactness.md derives it."""
