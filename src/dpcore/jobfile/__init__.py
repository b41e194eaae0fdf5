"""From a TOML file to checked sections, and explanations of mistakes in it."""

from dpcore._extras import require

require("dpcore.batch", "batch")
