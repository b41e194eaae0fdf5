"""Central privacy for tables: the job, its plan, its run, its page."""

from dpcore.batch.release.run import run

__all__ = ["run"]
