"""From a TOML file to checked sections, and what to say of mistakes in it."""
