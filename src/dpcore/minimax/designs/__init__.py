"""Channels of several outcomes that are designed for a model: the best linear estimator, its proofs, and what to use when."""
