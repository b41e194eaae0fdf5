"""Local privacy for tables: the job, its plan, its run, its page."""
