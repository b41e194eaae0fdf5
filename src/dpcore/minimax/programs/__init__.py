"""Linear and conic programmes: how they are written, in which units, and how they are solved."""
