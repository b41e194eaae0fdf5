"""Linear and conic programs: how they are written, their units, and how they are solved."""
