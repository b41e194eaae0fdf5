"""Types of cells, and what a cell becomes; each by itself."""
