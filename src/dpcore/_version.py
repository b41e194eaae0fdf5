"""The one place that names dpcore's version."""

__version__ = "0.1.0"
