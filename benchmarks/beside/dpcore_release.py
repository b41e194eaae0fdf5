"""The release by dpcore."""

PACKAGES = ("dpcore",)


def release(path, regions, bands):
    from dpcore import PrivateTable

    people = PrivateTable(
        path, unit="person", max_rows_per_unit=3, relation="add_remove"
    )
    cells = people.group_by("region", "band", groups={"region": regions, "band": bands})
    found = cells.mean("income", epsilon=1.0, lower=0, upper=200, missing=0).document
    cells = zip(*found["groups"].values(), strict=True)
    return dict(
        zip(cells, zip(found["count"], found["value"], strict=True), strict=True)
    )
