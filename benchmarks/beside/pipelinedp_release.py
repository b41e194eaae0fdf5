"""The release by PipelineDP, without a cluster. DuckDB reads the rows."""

PACKAGES = ("pipeline-dp", "python-dp", "duckdb")


def release(path, regions, bands):
    import duckdb
    import pipeline_dp as pdp

    rows = duckdb.sql(
        f"select person, region, band, coalesce(income, 0) from '{path}'"
    ).fetchall()
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=0.0)
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    params = pdp.AggregateParams(
        metrics=[pdp.Metrics.COUNT, pdp.Metrics.MEAN],
        noise_kind=pdp.NoiseKind.LAPLACE,
        max_contributions=3,
        min_value=0,
        max_value=200,
    )
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: (row[1], row[2]),
        value_extractor=lambda row: row[3],
    )
    cells = [(region, band) for region in regions for band in bands]
    found = engine.aggregate(rows, params, extractors, public_partitions=cells)
    accountant.compute_budgets()
    return {cell: (metrics.count, metrics.mean) for cell, metrics in found}
