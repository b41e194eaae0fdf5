"""The estimator that finds θ by a binary search of tests."""
