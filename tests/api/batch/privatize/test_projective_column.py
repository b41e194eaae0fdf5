"""A column of projective geometry response: its reports and metadata in files, and the estimates from them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from dpcore import local
from dpcore.testing import KeyedRandom
from support.jobs import FORMATS, KEY, Workplace, read_table, write_table

WARD = {"mechanism": "projective", "epsilon": 2.0, "k": 30, "missing": 0, "unknown": 29}
LABELLED = {"mechanism": "projective", "epsilon": 1.0, "categories": ["north", "east", "south"], "unknown": "north"}


@pytest.mark.parametrize("ending", FORMATS)
def test_reports_estimates_and_what_files_say(tmp_path, capsys, ending):
    place = Workplace(tmp_path, capsys)
    codes = np.arange(2000) % 33
    regions = pa.array(["north", "east", "south", "elsewhere"]).take(pa.array(np.arange(2000) % 4))
    write_table(pa.table({"ward": codes, "region": regions}), place.source)
    place.target = place.folder / f"out/private.{ending}"
    place.write_job({"ward": WARD, "region": LABELLED}, privacy={"max_epsilon": 10.0})
    done = place.privatize()
    assert done.code == 0, done.err
    ward, region = local.ProjectiveGeometryResponse(2.0, k=30, unknown=29), local.ProjectiveGeometryResponse(1.0, k=3, unknown=0)
    expected = {
        "ward": ward.privatize(codes, rng=KeyedRandom(KEY).at(nonce=0)),
        "region": region.privatize(np.array([0, 1, 2, 0])[np.arange(2000) % 4], rng=KeyedRandom(KEY).at(nonce=1)),
    }
    result = read_table(place.target)
    assert {name: result[name].to_pylist() for name in expected} == {name: reports.tolist() for name, reports in expected.items()}
    if ending == "csv":
        said = json.loads((place.folder / "out/private.csv.dpcore.json").read_text(encoding="utf-8"))["fields"]["ward"]
    else:
        assert result.schema.field("ward").type == pa.uint32()
        said = json.loads(result.schema.field("ward").metadata[b"dpcore"])
    assert (said["mechanism"], said["k"], said["q"], said["dimension"]) == ("projective", 30, ward.q, ward.dimension)
    done = place.estimate()
    assert done.code == 0, done.err
    for column, mechanism in zip(json.loads(done.out)["columns"], (ward, region), strict=True):
        found = mechanism.estimate(expected[column["name"]])
        assert column["kind"] == "frequencies"
        assert np.array_equal(column["value"], found.value)
        assert np.array_equal(column["interval"], found.interval())
