"""Programs in the manner of OpenDP's guide: with two lines and dpcore's names they print what OpenDP's own noise prints.

They print what does not depend on noise: scales that a context finds, losses, types and errors.
"""

from __future__ import annotations

import pytest

pytest.importorskip("opendp", reason="make test-interop PEER=opendp")

from dpcore.interop import opendp
from support.tutorials import said
from support.versions import only_tested

only_tested(opendp.PEER)

LINES = ("from dpcore.interop import opendp", "opendp.install()")
FEATURE = {'"contrib"': '"contrib", "honest-but-curious"'}
IN_CONTEXTS = FEATURE | {".laplace()": ".dpcore_laplace()", ".gaussian()": ".dpcore_gaussian()"}
IN_CHAINS = FEATURE | {"dp.m.": "opendp."}
PROGRAMS = {
    "a workflow in a context": (IN_CONTEXTS, """
import opendp.prelude as dp

dp.enable_features("contrib")
incomes = [float(20 + i % 60) for i in range(400)]
context = dp.Context.compositor(
    data=incomes,
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0),
    split_evenly_over=3,
)
count = context.query().count().laplace()
print(count.param(), dp.discrete_laplacian_scale_to_accuracy(scale=count.param(), alpha=0.05))
people = count.release()
print(type(people), abs(people - 400) < 120)
prepared = context.query().impute_constant(50.0).clamp((0.0, 100.0))
mean = prepared.resize(size=400, constant=50.0).mean().laplace()
print(mean.param(), type(mean.release()))
try:
    context.query().sum().laplace()
except dp.OpenDPException as error:
    print(error)
print(type(prepared.sum().laplace().release()))
try:
    prepared.sum().laplace().release()
except Exception as error:
    print(error)
zcdp = dp.Context.compositor(
    data=incomes, privacy_unit=dp.unit_of(contributions=2), privacy_loss=dp.loss_of(rho=0.5), split_by_weights=[1, 3]
)
for query in (zcdp.query().count().gaussian(), zcdp.query().impute_constant(40.0).clamp((0.0, 80.0)).sum().gaussian()):
    print(query.param(), type(query.release()))
"""),
    "chains": (IN_CHAINS, """
import opendp.prelude as dp

dp.enable_features("contrib")
print(dp.binary_search_param(lambda b: dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), b), 1, 0.5))
space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
noisy_sum = space >> dp.t.then_clamp((0, 10)) >> dp.t.then_sum() >> dp.m.then_laplace(scale=5.0)
print(noisy_sum.map(1), noisy_sum.check(1, 2.0), type(noisy_sum(list(range(100)))))
of_floats = dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), 1.0)
try:
    space >> dp.t.then_clamp((0, 10)) >> dp.t.then_sum() >> of_floats
except dp.OpenDPException as error:
    print(error)
adaptive = dp.c.make_adaptive_composition(*space, dp.max_divergence(), d_in=1, d_mids=[2.0, 1.0])
asked = adaptive(list(range(10)))
print(adaptive.map(1), type(asked(noisy_sum)), type(asked(space >> dp.t.then_count() >> dp.m.then_laplace(scale=1.0))))
try:
    asked(noisy_sum)
except dp.OpenDPException as error:
    print(error)
scores = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
best = dp.m.make_noisy_max(*scores, dp.max_divergence(), scale=0.01)
print(best.map(0.005), best([0.0, 9.0, 3.0]))
print(sorted(dp.m.make_noisy_top_k(*scores, dp.max_divergence(), k=2, scale=0.01)([0.0, 9.0, 3.0])))
print(noisy_sum)
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_the_same_with_dpcores_names(name):
    names, program = PROGRAMS[name]
    before, after = said(program), said(program, *LINES, **names)
    assert len(before) >= 8
    assert before == after


def test_a_survey_with_randomised_response():
    """OpenDP's constructor takes the probability alone, dpcore's a space first."""
    program = """
import opendp.prelude as dp

dp.enable_features("contrib", "honest-but-curious")
one = dp.atom_domain(T=bool), dp.discrete_distance()
own, ours = dp.m.make_randomized_response_bool(prob=0.75), one >> opendp.then_randomized_response_bool(prob=0.75)
print(round(own.map(1) - ours.map(1), 12), type(own(True)) is type(ours(True)))
answers = dp.vector_domain(dp.atom_domain(T=bool)), dp.hamming_distance()
reports = (answers >> opendp.then_randomized_response_bool(prob=0.75))([True] * 2000 + [False] * 8000)
print(abs((sum(reports) / 10_000 + 0.75 - 1) / 0.5 - 0.2) < 0.06, type(reports), len(reports))
opendp.install()  # the cell is run again
opendp.uninstall()
try:
    dp.Context.compositor(
        data=[1], privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=1
    ).query().count().dpcore_laplace()
except AttributeError as error:
    print(error)
"""
    found = said(program, *LINES)
    assert found[:2] == ["0.0 True", "True <class 'list'> 10000"]
    assert "dpcore_laplace" in found[2]
