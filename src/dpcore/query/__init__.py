"""The engine: kinds of queries, their statistics, noise and answers, for whoever asks."""

from dpcore._extras import require

require("dpcore.batch", "batch")
