"""Jobs: `privatize`, `estimate` and `release`, and the commands that run them."""

from dpcore._extras import require

require("dpcore.batch", "batch")
