"""The noise of releases that can be replayed follows the law of all other releases, over many keys."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from scipy import stats

from dpcore.batch import load_release_job, make_release_plan, release
from support.commits import Kept
from support.jobs import write_table

pytestmark = pytest.mark.long
CELLS, RELEASES, EPSILON = 4096, 50, 0.5
LEVEL = 1e-6


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """That of the empty cells of a histogram, a row for each release."""
    place = Kept(tmp_path_factory.mktemp("law"), None)
    write_table(pa.table({"code": pa.array([0] * 10)}), place.source)
    place.write_release(
        {"codes": {"kind": "histogram", "column": "code", "k": CELLS, "missing": 0, "unknown": 0}}, key=None, epsilon=EPSILON
    )
    job, found = load_release_job(place.job), []
    for number in range(RELEASES):
        document = release(make_release_plan(job, commit=place.folder / "keys" / str(number)))
        found.append(document["queries"][0]["value"][1:])
        place.target.unlink()
    return np.array(found)


def p_value(found, epsilon):
    """Of the counts of each value under the discrete Laplace law of two cells."""
    ratio = np.exp(-epsilon / 2)
    values = np.arange(-20, 21)
    mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values)
    counts = [np.count_nonzero(found == value) for value in values]
    rest, expected = found.size - sum(counts), found.size * np.append(mass, 1 - mass.sum())
    return stats.chisquare([*counts, rest], expected).pvalue


def test_noise_has_its_law(noise):
    assert p_value(noise, EPSILON) > LEVEL


def test_a_scale_three_percent_larger_is_rejected(noise):
    assert p_value(noise, EPSILON / 1.03) < LEVEL


def test_releases_are_independent_of_each_other(noise):
    flat = noise - noise.mean()
    found = np.corrcoef(flat)[np.triu_indices(RELEASES, 1)] * np.sqrt(noise.shape[1])
    assert np.abs(found).max() < stats.norm.isf(LEVEL / len(found) / 2) + 0.5
    assert len({row.tobytes() for row in noise}) == RELEASES
