"""The peers of the benchmarks, each in the fastest form that its users write. A peer's package is imported when the peer runs."""
