"""The release by OpenDP's Polars context."""

import warnings

PACKAGES = ("opendp", "polars")
warnings.simplefilter("ignore", FutureWarning)


def release(path, regions, bands):
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("person")),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["region", "band"], max_length=100_000_000)],
    )
    keys = pl.LazyFrame({"region": regions}).join(
        pl.LazyFrame({"band": bands}), how="cross"
    )
    rows = context.query().truncate_per_group(3).group_by("region", "band")
    distances = pl.col("income").fill_null(0) - 100
    sums = rows.agg(dp.len(signed=True), distances.dp.sum((-100, 100))).with_keys(keys)
    found = sums.release().collect()
    return {
        (region, band): (count, 100 + total / max(count, 1))
        for region, band, count, total in found.iter_rows()
    }
