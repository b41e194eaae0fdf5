"""dpcore's measurements in chains, conversions, compositions and contexts of OpenDP."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.interop import opendp as fast
from support.opendp import FEATURES, array_space, atoms, dp, features, number_space, score_space

AGES = [20, 31, 42, 55, 61, 18] * 200
WORDS = ["a", "b", "a", "c"] * 250


@pytest.fixture(autouse=True)
def enabled():
    with features(*FEATURES), fast.install():
        yield


def integers():
    return dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()


def words():
    return dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()


def test_chains_with_transformations_lose_what_opendp_s_own_lose():
    for ours, native in [(fast.then_laplace, dp.m.then_laplace), (fast.then_gaussian, dp.m.then_gaussian)]:
        for start in (integers() >> dp.t.then_count(), integers() >> dp.t.then_clamp((0, 100)) >> dp.t.then_sum()):
            measurement, twin = start >> ours(5.0), start >> native(5.0)
            assert [measurement.map(d) for d in (1, 2, 5)] == [twin.map(d) for d in (1, 2, 5)]
            assert isinstance(measurement(AGES), int)
            assert measurement.check(1, twin.map(1))
            assert not measurement.check(1, twin.map(1) * 0.999)


def test_histograms_and_what_is_made_of_answers():
    counts = words() >> dp.t.then_count_by_categories(["a", "b", "c"], null_category=False, MO="L1Distance<i32>")
    answer = (counts >> fast.then_laplace(1.0))(WORDS)
    assert [type(x) for x in answer] == [int] * 3
    assert np.allclose(answer, [500, 250, 250], atol=40)
    doubled = counts >> fast.then_laplace(1.0) >> (lambda released: [2 * x for x in released])
    assert all(x % 2 == 0 for x in doubled(WORDS))
    array = (counts >> fast.then_laplace(1.0, as_array=True))(WORDS)
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.int32


def test_means_of_floats():
    space = dp.vector_domain(dp.atom_domain(bounds=(0.0, 100.0), nan=False), 1200), dp.symmetric_distance()
    mean = space >> dp.t.then_mean()
    assert (mean >> fast.then_laplace(0.5)).map(2) == (mean >> dp.m.then_laplace(0.5)).map(2)
    assert abs((mean >> fast.then_laplace(0.5))([float(age) for age in AGES]) - np.mean(AGES)) < 15


def test_choices_after_scores():
    quantile = (
        dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    ) >> dp.t.then_quantile_score_candidates([0, 20, 40, 60, 80], alpha=0.5)  # fmt: skip
    chain = quantile >> fast.then_noisy_max(dp.max_divergence(), 10.0, negate=True)
    assert chain.map(1) == (quantile >> dp.m.then_noisy_max(dp.max_divergence(), 10.0, negate=True)).map(1)
    assert 0 <= chain(AGES) < 5
    several = quantile >> fast.then_noisy_top_k(dp.zero_concentrated_divergence(), 2, 10.0, negate=True)
    assert len(set(several(AGES))) == 2


def test_responses_at_the_end_of_a_chain():
    one = dp.atom_domain(T=bool), dp.discrete_distance()
    assert (one >> fast.then_randomized_response_bool(0.75)).map(1) == dp.m.make_randomized_response_bool(0.75).map(1)
    many = dp.vector_domain(dp.atom_domain(T=str)), dp.hamming_distance()
    assert set((many >> fast.then_randomized_response(["a", "b", "c"], 0.9))(WORDS)) <= set("abc")
    drawn = (dp.vector_domain(atoms()), dp.change_one_distance()) >> fast.then_ks_exponential(1.0, bounds=(0, 1), draws=5, bins=4)
    assert len(drawn([0.5] * 100)) == 5


def test_conversions_of_the_measure():
    count = integers() >> dp.t.then_count()
    ours, native = count >> fast.then_gaussian(4.0), count >> dp.m.then_gaussian(4.0)
    for delta in (1e-9, 1e-6):
        fixed = [dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(m), delta) for m in (ours, native)]
        assert fixed[0].map(1) == fixed[1].map(1)
        assert isinstance(fixed[0](AGES), int)
    profiles = [dp.c.make_zCDP_to_approxDP(m).map(1) for m in (ours, native)]
    assert profiles[0].epsilon(1e-7) == profiles[1].epsilon(1e-7)
    ours, native = count >> fast.then_laplace(4.0), count >> dp.m.then_laplace(4.0)
    assert dp.c.make_pureDP_to_zCDP(ours).map(1) == dp.c.make_pureDP_to_zCDP(native).map(1)
    assert dp.c.make_approximate(ours).map(1) == dp.c.make_approximate(native).map(1)


def test_samples_of_a_population_lose_less():
    space = dp.vector_domain(dp.atom_domain(T=int), 1200), dp.symmetric_distance()
    losses = [
        dp.c.make_population_amplification(
            space >> dp.t.then_clamp((0, 100)) >> dp.t.then_sum() >> noise(200.0), population_size=12_000
        ).map(2)
        for noise in (fast.then_laplace, dp.m.then_laplace)
    ]
    assert losses[0] == losses[1] < 0.1


def test_compositions_that_are_fixed_beforehand():
    count = integers() >> dp.t.then_count()
    both = dp.c.make_composition([count >> fast.then_laplace(2.0), count >> dp.m.then_laplace(4.0)])
    assert both.map(1) == 0.75
    assert len(both(AGES)) == 2


def test_adaptive_composition_refuses_what_was_not_planned():
    count = integers() >> dp.t.then_count()
    compositor = dp.c.make_adaptive_composition(*integers(), output_measure=dp.max_divergence(), d_in=1, d_mids=[0.5, 0.25])
    queryable = compositor(AGES)
    assert abs(queryable(count >> fast.then_laplace(2.0)) - len(AGES)) < 60
    with pytest.raises(dp.OpenDPException, match="insufficient budget"):
        queryable(count >> fast.then_laplace(1.0))
    assert abs(queryable(count >> fast.then_laplace(4.0)) - len(AGES)) < 120
    with pytest.raises(dp.OpenDPException):
        queryable(count >> fast.then_laplace(4.0))


def test_odometers_and_filters_count_what_was_spent():
    odometer = dp.c.make_fully_adaptive_composition(*integers(), output_measure=dp.max_divergence())
    count = integers() >> dp.t.then_count()
    queryable = odometer(AGES)
    queryable(count >> fast.then_laplace(2.0))
    assert queryable.privacy_loss(1) == 0.5
    queryable(count >> fast.then_laplace(4.0))
    assert queryable.privacy_loss(1) == 0.75
    limited = dp.c.make_privacy_filter(odometer, d_in=1, d_out=1.0)(AGES)
    limited(count >> fast.then_laplace(2.0))
    limited(count >> fast.then_laplace(2.0))
    with pytest.raises(dp.OpenDPException):
        limited(count >> fast.then_laplace(2.0))


def context(loss, data=AGES, domain=None, **split):
    domain = domain or dp.vector_domain(dp.atom_domain(T=int))
    return dp.Context.compositor(data=data, privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss, domain=domain, **split)


LOSSES = {"pure": dp.loss_of(epsilon=1.0), "zcdp": dp.loss_of(rho=0.25), "approximate": dp.loss_of(epsilon=1.0, delta=1e-7)}


@pytest.mark.parametrize(
    ("loss", "noise"),
    [("pure", "laplace"), ("zcdp", "laplace"), ("zcdp", "gaussian"), ("approximate", "laplace"), ("approximate", "gaussian")],
)
def test_queries_of_a_context_calibrate_as_opendp_s_own(loss, noise):
    session = context(LOSSES[loss], split_evenly_over=2)
    query, twin = (getattr(session.query().count(), name)() for name in (f"dpcore_{noise}", noise))
    assert query.resolve().map(1) == twin.resolve().map(1)
    assert query.param() == twin.param()
    assert abs(query.release() - len(AGES)) < 200
    assert abs(getattr(session.query().clamp((0, 100)).sum(), f"dpcore_{noise}")().release() - sum(AGES)) < 20_000
    with pytest.raises(ValueError, match="exhausted"):
        session.query()


def test_gaussian_noise_has_no_pure_loss():
    with pytest.raises(ValueError, match="cast"):
        context(LOSSES["pure"], split_evenly_over=2).query().count().dpcore_gaussian().release()


def test_gaussian_noise_at_a_delta_takes_a_smaller_scale():
    data, domain = [i % 100 / 1.0 for i in range(1200)], dp.vector_domain(dp.atom_domain(bounds=(0.0, 100.0), nan=False), 1200)
    session = dp.Context.compositor(
        data=data, privacy_unit=dp.unit_of(contributions=2), privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6), split_evenly_over=2,
        domain=domain,
    )  # fmt: skip
    query, twin = session.query().mean().dpcore_gaussian(delta=5e-7), session.query().mean().gaussian()
    epsilon, delta = query.resolve().map(2)
    assert 0.4999999 < epsilon <= 0.5
    assert delta == 5e-7
    assert query.param() < 0.95 * dp.binary_search(lambda b: session.query().mean().gaussian(b).resolve().map(2)[0] <= 0.5, T=float)
    assert abs(query.release() - 49.5) < 10
    assert abs(twin.release() - 49.5) < 10
    fresh = context(LOSSES["approximate"], [1.0] * 9, dp.vector_domain(atoms()), split_evenly_over=2)
    too_much = fresh.query().clamp((0.0, 1.0)).resize(9, 0.5).sum().dpcore_gaussian(delta=1e-3)
    with pytest.raises(dp.OpenDPException, match="insufficient budget"):
        too_much.release()


def test_scales_can_be_given_and_are_checked_against_the_budget():
    session = context(LOSSES["pure"], split_evenly_over=2)
    assert abs(session.query().count().dpcore_laplace(2.0).release() - len(AGES)) < 60
    with pytest.raises(dp.OpenDPException, match="insufficient budget"):
        session.query().count().dpcore_laplace(1.0).release()


def test_contexts_without_a_plan_are_filters():
    session = context(LOSSES["pure"])
    session.query(epsilon=0.25).count().dpcore_laplace().release()
    assert session.current_privacy_loss() == 0.25
    assert session.remaining_privacy_loss() == 0.75
    with pytest.raises(dp.OpenDPException):
        session.query(epsilon=0.8).count().dpcore_laplace().release()


def test_nested_compositors():
    session = context(LOSSES["pure"], split_evenly_over=2)
    inner = session.query().compositor(split_evenly_over=2).release()
    inner.query().count().dpcore_laplace().release()
    assert abs(inner.query().count().dpcore_laplace().release() - len(AGES)) < 200


def test_choices_in_a_context():
    session = context(LOSSES["pure"], split_evenly_over=2)
    scores = session.query().quantile_score_candidates([0, 20, 40, 60, 80], 0.5)
    chosen = scores.dpcore_noisy_max(dp.max_divergence(), negate=True)
    assert chosen.param() == scores.noisy_max(dp.max_divergence(), negate=True).param()
    assert chosen.release() in range(5)
    several = session.query().quantile_score_candidates([0, 20, 40, 60, 80], 0.5)
    assert len(several.dpcore_noisy_top_k(dp.max_divergence(), 2, negate=True).release()) == 2


def test_local_responses_in_a_context():
    session = dp.Context.compositor(
        data=True, privacy_unit=dp.unit_of(local=True), privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=2,
        domain=dp.atom_domain(T=bool),
    )  # fmt: skip
    query = session.query().dpcore_randomized_response_bool()
    assert query.param() == session.query().randomized_response_bool().param()
    assert 0.4999999 < query.resolve().map(1) <= 0.5
    assert query.release() in (True, False)
    words = dp.Context.compositor(
        data="b", privacy_unit=dp.unit_of(local=True), privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=2,
        domain=dp.atom_domain(T=str),
    )  # fmt: skip
    query = words.query().dpcore_randomized_response(["a", "b", "c"])
    assert 0.4999999 < query.resolve().map(1) <= 0.5
    assert query.release() in ("a", "b", "c")


def test_arrays_in_a_context():
    values = np.linspace(0, 1, 10_000).reshape(100, 100)
    domain, metric = array_space(values.shape)
    session = dp.Context.compositor(
        data=values, privacy_unit=(metric, 1.0), privacy_loss=dp.loss_of(epsilon=1.0), split_evenly_over=4, domain=domain
    )
    released = session.query().dpcore_laplace().release()
    assert released.shape == values.shape
    assert released is not values
    assert abs(np.mean(released - values)) < 1
    with pytest.raises(ValueError, match=r"one parameter|missing 1|parameter"):
        session.query().dpcore_noisy_top_k().release()


def test_draws_in_a_context():
    session = dp.Context.compositor(
        data=[i / 1000 for i in range(1000)], privacy_unit=dp.unit_of(changes=1), privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=2, domain=dp.vector_domain(atoms()),
    )  # fmt: skip
    query = session.query().dpcore_ks_exponential(bounds=(0, 1), draws=20, bins=10)
    assert query.param() == 0.5
    assert len(query.release()) == 20


def test_measurements_are_found_by_binary_search():
    chain = dp.binary_search_chain(lambda b: fast.make_laplace(*number_space("i32"), b), d_in=10, d_out=0.25)
    assert chain.map(10) <= 0.25
    assert dp.binary_search_param(lambda b: fast.make_laplace(*number_space("i32"), b), d_in=10, d_out=0.25) == 40.0
    # Integers take noise of at most 2^40, and OpenDP's searches try larger scales.
    assert dp.binary_search_param(lambda b: fast.make_laplace(*number_space("i32"), b), d_in=1, d_out=2.0**-39) == 2.0**39
    too_large = fast.make_laplace(*number_space("i32"), 2.0**41)
    assert too_large.map(1) == 2.0**-41
    with pytest.raises(dp.OpenDPException, match=r"scale must be at most 2\^40 for noise on integers, got 2199023255552.0"):
        too_large(5)


def test_lists_of_scores_may_be_monotonic():
    space = score_space("i32", monotonic=True)
    assert fast.make_noisy_max(*space, dp.max_divergence(), 2.0).map(1) == 0.5
    assert (space >> fast.then_noisy_max(dp.max_divergence(), 2.0))([1, 2, 300]) == 2
