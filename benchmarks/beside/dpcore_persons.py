"""Two questions about persons by dpcore."""

PACKAGES = ("dpcore",)


def ask(path, edges, upper):
    from dpcore import PrivateTable

    visits = PrivateTable(path, unit="person", relation="add_remove")
    persons = visits.per_unit(visits="count(*)", cost="sum(cost)")
    with persons.batch(epsilon=1.0) as batch:
        counts = batch.histogram("visits", epsilon=0.5, edges=edges)
        mean = batch.mean("cost", epsilon=0.5, lower=0, upper=upper, missing=0)
    return counts, mean


def release(path, edges, upper):
    counts, mean = ask(path, edges, upper)
    bins = zip(edges[:-1], counts.value, strict=True)
    return {(low,): (count,) for low, count in bins} | {("cost",): (mean.value,)}


def scales(path, edges, upper):
    answers = ask(path, edges, upper)
    return [noise["scale"] for answer in answers for noise in answer.document["noise"]]
