"""The tests, a package so that spawned processes find their functions here: diffprivlib installs a package of the same name."""
