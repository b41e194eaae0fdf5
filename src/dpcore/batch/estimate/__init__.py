"""From tables of reports to estimates: what they say of themselves, the run, its page."""
