"""Jobs on Spark: the same jobs as on one machine, published once."""
