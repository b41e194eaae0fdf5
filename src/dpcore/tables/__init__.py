"""Tables: sources, formats, types, units, expressions of SQL, and outputs that are complete or absent."""

from dpcore._extras import require

require("dpcore.batch", "batch")
