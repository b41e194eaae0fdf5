"""The engine: kinds of queries, their statistics, noise and answers."""

from dpcore._extras import require

require("dpcore.batch", "batch")
