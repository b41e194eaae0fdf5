"""From tables of reports to estimates: the metadata of tables, the run, its page."""
