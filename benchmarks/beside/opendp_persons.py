"""Two questions about persons by OpenDP's Polars context."""

import warnings

PACKAGES = ("opendp", "polars")
warnings.simplefilter("ignore", FutureWarning)


def ask(path, edges, upper):
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("person")),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=2,
        margins=[dp.polars.Margin(max_length=100_000_000)],
    )
    visits = context.query().group_by("person")
    persons = visits.agg(pl.len().alias("visits"), pl.col("cost").sum())
    names = [str(low) for low in edges[:-1]]
    bins = pl.col("visits").cut(edges[1:-1], labels=names, left_closed=True)
    keys = pl.LazyFrame({"visits": names}, schema={"visits": pl.Categorical})
    counts = persons.with_columns(bins).group_by("visits").agg(dp.len(signed=True))
    middle = upper // 2
    distances = pl.col("cost").fill_null(0).clip(0, upper) - middle
    sums = distances.dp.sum((-middle, middle))
    return counts.with_keys(keys), persons.select(dp.len(signed=True), sums)


def release(path, edges, upper):
    counts, mean = [query.release().collect() for query in ask(path, edges, upper)]
    (number, total), *_ = mean.iter_rows()
    found = {(int(low),): (count,) for low, count in counts.iter_rows()}
    return found | {("cost",): (upper // 2 + total / max(number, 1),)}


def scales(path, edges, upper):
    return [
        scale
        for query in ask(path, edges, upper)
        for scale in query.summarize()["scale"]
    ]
