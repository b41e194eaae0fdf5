"""What every HTML page is made of: templates, plots, numbers, and words."""
