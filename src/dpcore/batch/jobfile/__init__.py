"""From a TOML file to checked sections, and explanations of mistakes in it."""
