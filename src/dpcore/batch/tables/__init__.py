"""Tables: formats, pieces, types, encodings, units, metadata, and outputs that are complete or absent."""
