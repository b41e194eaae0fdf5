"""`python -m dpcore`, and the file that `spark-submit` runs: the command line of dpcore."""

from __future__ import annotations

from dpcore.cli import main

if __name__ == "__main__":
    main()
