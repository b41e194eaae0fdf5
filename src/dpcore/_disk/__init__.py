"""Files that are complete or absent, objects of stores, addresses, locks, and signals that wait."""
