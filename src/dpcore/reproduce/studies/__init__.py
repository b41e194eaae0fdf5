"""One module a study. A module that defines `STUDY` is found by `dpcore.reproduce.known_studies()`: adding one is adding a file."""
