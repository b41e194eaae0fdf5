"""Every name under which a module keeps something between calls is known, with the reason why threads may share it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.module_state import state_of

pytestmark = pytest.mark.source_tree

SOURCES = Path(__file__).resolve().parents[2] / "src"

CACHE = "functools.lru_cache locks itself; keys are all that determine the value; values are numbers, tuples or frozen"
CONSTANT = "made at import, changed by nothing"
ALLOWED = {
    "_backend/levels.py": dict.fromkeys(("_allows_vaes()", "_forced_cipher"), "read from the environment at import, then constant"),
    "_backend/constant.py": {"_digits()": CACHE, "_shift_digits()": CACHE, "_two_digits()": CACHE},
    "_backend/noise.py": {"_discrete_law()": CACHE, "_float_law()": CACHE, "_laws()": CACHE},
    "_backend/release.py": {"step_weights()": f"{CACHE}; its arrays are read-only"},
    "_backend/response.py": dict.fromkeys(
        (
            "_bounding_law()",
            "_kary_scale()",
            "_law()",
            "_reals()",
            "bounded_law()",
            "flip_law()",
            "hadamard_law()",
            "hashing_law()",
            "kary_law()",
            "subset_law()",
            "unary_law()",
        ),
        CACHE,
    ),
    "local/unary.py": {"_probabilities()": CACHE},
    "selection/partitions.py": {"_kept_rule": CACHE},
    "_backend/vectors.py": {"_law()": CACHE},
    "local/_geometry.py": {"best_geometry()": CACHE, "space_of()": CACHE},
    "local/projective.py": {"_law()": CACHE, "_support()": CACHE},
    "local/_hypercube.py": {"hypercube()": CACHE, "law_of_signs()": CACHE},
    "_backend/threads.py": {"_pool": "its lock guards every change; a child of fork gets a new one", "default_threads()": CACHE},
    "sums.py": {"_on_grid()": CACHE},
    "accounting/scales.py": {"quotient_up()": CACHE},
    "accounting/_calibration.py": dict.fromkeys(
        ("analytic_gaussian_scale()", "exact_discrete_gaussian_scale()", "gaussian_ratio()", "zcdp_discrete_gaussian_scale()"), CACHE
    ),
    "_version.py": {"code_digest()": "functools.lru_cache locks itself; it keeps a text that follows from the installed files"},
    "_processes.py": {"_forks": "counted by the one thread that a child of fork begins with"},
    "_disk/stores.py": {"_connected()": "functools.lru_cache locks itself; keys are a bucket and settings; threads share what it keeps"},
    "_exact/elementary.py": dict.fromkeys(("_even_bernoulli()", "_ln2()", "_pi()", "_table()"), CACHE),
    "_exact/digits.py": dict.fromkeys(("_base()", "gaussian()", "geometric()", "laplace()"), f"{CACHE}; the lists are only read"),
    "_exact/sampling.py": {"_laplace_offset()": CACHE, "acceptance_terms()": CACHE, "gaussian_thresholds()": CACHE},
    "_amounts.py": {"LEAST": CONSTANT},
    "_exact/probability.py": {"HALF": CONSTANT}
    | dict.fromkeys(("_floor()", "_nearest()", "complement()", "inclusion()", "logistic_complement()", "one_of()"), CACHE),
    "accounting/ledger/amounts.py": {
        "NOTHING": CONSTANT,
        "_SMALLEST": CONSTANT,
        "_DIGITS": "a decimal context that is only copied",
    },
    "accounting/ledger/database.py": {"APPLICATION": CONSTANT},
    "accounting/_optimal.py": {"_stirling_coefficient()": CACHE, "optimal_epsilon()": CACHE},
    "tables/sql/database.py": {"_shared": "its lock guards every change; a child of fork opens a database of its own"},
    "tables/sql/allowed.py": dict.fromkeys(("OF_NUMBERS", "OF_TEXT", "OF_TIME", "PART", "REGULAR", "SAME"), CONSTANT),
    "planning/answers.py": {"error()": CACHE},
    "tables/sections.py": {"OutputSection.COMPRESSIONS": CONSTANT},
    "jobs/privatize_job.py": {"ENTRIES": CONSTANT},
    "frames/call_words.py": {"OF_A_CALL": "words without fields"},
    "tables/output/job_words.py": {"OF_A_JOB": "words without fields"},
    "query/request.py": {"ENTRIES": CONSTANT},
    "_commands/options.py": {"sys": "a finder of absent packages, in the process of a command alone, while it imports one library"},
    "query/kinds/__init__.py": dict.fromkeys(
        ("KINDS", "QUERY_SECTIONS"), "what a file of a kind makes is put there when it is first looked up; two threads would put equals"
    ),
    "tables/mistakes.py": {"NO_VALUE": CONSTANT},
    "query/kinds/geometric_mean.py": {"log_steps()": CACHE},
    "query/noise.py": {"half_width_of()": CACHE, "unit_width()": CACHE},
    "tables/types/reports.py": {"HEX": CONSTANT},
    "bench/_peers/sources.py": {
        **dict.fromkeys(("PCG64", "SFC64"), "generators of peers, which a benchmark times and whose numbers nobody keeps"),
        "chacha()": CACHE,
        "mkl_state()": CACHE,
    },
    "bench/calls.py": {"KEY": CONSTANT},
    "bench/interactive.py": {"STEPS": "counts the parameters of a benchmark, so that each is new"},
    "bench/minimax.py": {"binary_estimator()": CACHE, "estimator()": CACHE, "finite_estimator()": CACHE},
    "bench/rows.py": {"SCHEMA": CONSTANT},
    "bench/selection.py": {"_backend": "a test's hook, for a measurement that runs alone"},
    "frames/_methods.py": {"Methods": "a method becomes a function when it is first looked up, the same one in all threads"},
    "frames/objects.py": {"_rules()": CACHE},
    "spark/commands.py": {"warnings": "how Python shows warnings while a command runs; catch_warnings puts it back"},
    "spark/failures.py": {"SECRET": "drawn at import, then constant"},
    "spark/part_totals.py": {"HEADER": CONSTANT},
    "interop/numpy.py": {"PEER": CONSTANT},
    "noise.py": {"_short_float()": CACHE, "_short_int()": CACHE},
    "interop/opendp/_measurements.py": {"PEER": CONSTANT, "peer()": CACHE},
    "interop/opendp/_registration.py": {"_INSTALLATION": "what install() has replaced, under its own lock"},
    "interop/_needed.py": {"needed()": "functools.lru_cache locks itself; it keeps that packages are there"},
    "interop/arrow.py": {"PEER": CONSTANT},
    "interop/diffprivlib/__init__.py": {"PEER": CONSTANT, "_INSTALLATION": "what install() has replaced, under its own lock"},
    "interop/diffprivlib/_choices.py": {
        "_lists": "one item a mechanism that its caller holds; made from its lists, compared with them, and never iterated",
        "_kept": "the same, from its utilities",
    },
    "interop/diffprivlib/_draws.py": {"_SECURE": CONSTANT, "float_call()": CACHE, "_int_call()": CACHE},
    "interop/diffprivlib/_numbers.py": dict.fromkeys(("LAPLACE", "GEOMETRIC", "GAUSSIAN", "ANALYTIC", "DISCRETE"), CONSTANT),
    "interop/diffprivlib/_records.py": {"_TRUTHS": CONSTANT},
    "interop/diffprivlib/_scales.py": {
        f"{name}()": CACHE
        for name in (
            "laplace",
            "geometric",
            "gaussian",
            "analytic_gaussian",
            "discrete_gaussian",
            "argmax",
            "bounded_domain",
            "bounded_noise",
        )
    },
    "interop/diffprivlib/_tables.py": {"table_of": CACHE},
    "interop/duckdb.py": {"PEER": CONSTANT, "ARROW": CONSTANT},
    "interop/opacus/__init__.py": {"PEER": CONSTANT, "_INSTALLATION": "what install() has replaced, under its own lock"},
    "interop/opacus/_bounds.py": {"inflation()": CACHE},
    "interop/opacus/_optimizers.py": {"_scale()": CACHE},
    "interop/pandas.py": {"PEER": CONSTANT, "ARROW": CONSTANT},
    "interop/sklearn/__init__.py": {"PEER": CONSTANT, "_found": CONSTANT},
    "interop/sklearn/_base.py": {"_COUNTING": "a lock, held for microseconds"},
    "interop/smartnoise.py": {
        "PEER": CONSTANT,
        "_INSTALLATION": "what install() has replaced, under its own lock",
        "sensitivity_of_sum()": CACHE,
        "_cell()": CACHE,
    },
    "interop/pipelinedp.py": {
        "PEER": CONSTANT,
        "_INSTALLATION": "what install() has replaced, under its own lock",
        "_private_scale()": CACHE,
    },
    "interop/tumult.py": {"PEER": CONSTANT, "_INSTALLATION": "what install() has replaced, under its own lock"},
    "interop/polars.py": {"PEER": CONSTANT, "ARROW": CONSTANT, "_INSTALLATION": "its own lock guards what is installed"},
    "inference/_lipschitz.py": {"least_sample_size()": CACHE},
    "inference/_sample_size.py": {"_SPLITS": CONSTANT, "least_sample_size()": CACHE},
    "inference/_thresholds.py": {"thresholds()": CACHE},
    "local/_mean_intervals.py": {"noise_width()": CACHE},
    "_spread.py": {"largest_sum_width()": CACHE, "noise_variance()": CACHE, "tail_width()": CACHE},
    "accounting/_binomials.py": {"EXACT_RESTS": CONSTANT},
    "accounting/_gaussian.py": {"largest_mu()": CACHE, "mu_pure()": CACHE},
    "accounting/_shuffling.py": {"least_epsilon()": CACHE},
    "bench/local.py": {"finite_channel()": CACHE},
    "inference/_population.py": {"EPSILONS": CONSTANT},
    "inference/_tails.py": {"_SLOPES": CONSTANT},
    "inference/generalization.py": {"_COPIES": CONSTANT, "_SHARES": CONSTANT},
    "inference/order_statistics.py": {"_splits()": CACHE},
    "local/_error_curves.py": {"kept()": CACHE, "widest_share()": CACHE},
    "local/finite.py": {"_inverse_of()": f"{CACHE}; its arrays are read-only", "_least_spread_of()": CACHE},
    "minimax/adaptive/location.py": {"TAILS": CONSTANT},
    "minimax/linear/curves.py": {"_widest()": CACHE},
    "minimax/search/given_channel.py": {"RADII": CONSTANT},
    "minimax/spaces/two_members.py": {"SHARES": CONSTANT},
    "planning/means.py": {"_half_width()": CACHE, "_noise_of()": CACHE},
    "reproduce/information.py": {"PLANE": CONSTANT},
    "reproduce/items/__init__.py": {"known_items()": CACHE},
    "reproduce/real_data.py": {"visits()": f"{CACHE}; its arrays are read-only"},
    "local/_limits.py": {"CERTAIN": CONSTANT},
    "local/_additive.py": {"_kept()": CACHE, "_middle()": CACHE, "range_width()": CACHE},
    "local/_one_bit.py": {"expansion()": CACHE},
    "local/hashing.py": {"_support()": CACHE, "best_codes()": CACHE},
    "local/kary.py": {"_support()": CACHE},
    "local/subset.py": {"_support()": CACHE, "best_size()": CACHE},
    "mechanisms/_parameters.py": {"_privacy": CACHE, "kept()": CACHE},
    "mechanisms/_totals.py": {"coefficients()": CACHE, "_inverse()": CACHE, "nodes_moved()": CACHE},
    "selection/_partition_rules.py": {"partition_rule()": CACHE},
    "selection/_plan.py": {"_kept_argmax_scale": CACHE, "make_plan()": CACHE},
    "selection/several.py": {"_kept": CACHE},
    "minimax/programs/frames.py": {"STANDARD": CONSTANT},
    "minimax/spaces/certified.py": {
        "_centres": "one item a model that its caller holds, set to the same value by every thread; never iterated"
    },
    "pages/plots.py": {"VARIABLES": CONSTANT, "_ONE_AT_A_TIME": "the lock that plots take: matplotlib's settings are the process's"},
    "distributions/_cosine_distances.py": {"largest_change()": CACHE, "largest_square()": CACHE},
    "distributions/_ks_levels.py": {"_exponent()": CACHE, "_mass()": CACHE},
    "pytest_plugin.py": {"_running": "the tests that run in this process, which pytest runs one after the other"},
    "query/kinds/running_total.py": {"COUNT": CONSTANT},
    "reproduce/counterexamples.py": {"COARSE": CONSTANT, "FINE": CONSTANT, "PAIRS_APART": CONSTANT},
    "reproduce/plots.py": {"SUPERSCRIPTS": CONSTANT},
    "reproduce/rate_curves.py": {"LINE": CONSTANT, "SERIES": CONSTANT},
    **{
        f"reproduce/studies/{name}.py": {"STUDY": CONSTANT}
        for name in (
            *("blackwell", "figure1", "generalization", "information", "lemmas", "limits", "lower_bounds", "minimax"),
            *("minimax_channels", "minimax_tests", "overfitting", "privacy_cost", "privacy_loss", "rates", "sample_sizes"),
        )
    },
    "reproduce/studies/exercises.py": {"STUDY": CONSTANT, "TRUTH": CONSTANT},
    "reproduce/studies/minimax_bounds.py": {"COIN": CONSTANT, "STUDY": CONSTANT},
    "reproduce/studies/distribution_tests.py": {"BASE": CONSTANT, "STUDY": CONSTANT},
    "spark/session.py": {"os": "variables of the process that pyspark reads when it starts Java, once"},
    "spark/settings.py": dict.fromkeys(("ADAPTIVE", "COMMIT", "CRYPTO", "SPILLS"), CONSTANT),
    "rng.py": {"_SECURE": "holds nothing: every call reads its own entropy"},
    "spark/file_tasks.py": {"ANSWER": CONSTANT},
}


@pytest.mark.long
def test_what_modules_keep_is_known() -> None:
    """A new cache, registry or counter is added above, with a reason; one that is gone is removed."""
    found = {str(path.relative_to(SOURCES / "dpcore")): state_of(path.read_text()) for path in (SOURCES / "dpcore").rglob("*.py")}
    assert {name: state for name, state in found.items() if state} == {name: set(reasons) for name, reasons in ALLOWED.items()}


@pytest.mark.parametrize(
    ("source", "state"),
    [
        ("seen = {}\ndef f(x):\n    seen[x] = 1", {"seen"}),
        ("seen = []\ndef f(x):\n    seen.append(x)", {"seen"}),
        ("seen: dict[str, int] = {}\ndef f(x):\n    return seen.setdefault(x, 1)", {"seen"}),
        ("n = 0\ndef f():\n    global n\n    n += 1", {"n"}),
        ("class A:\n    n = 0\ndef f():\n    A.n += 1", {"A"}),
        ("class A:\n    seen = []", {"A.seen"}),
        ("from m import settings\ndef f():\n    settings.x = 1", {"settings"}),
        ("import functools\n@functools.cache\ndef f(x):\n    return x", {"f()"}),
        ("import threading\nhere = threading.local()", {"here"}),
        ("from itertools import count\nnumbers = count()", {"numbers"}),
        ("seen = {'a': 1}\ndef f(x):\n    seen = {}\n    seen[x] = 1\n    return seen", set()),
        ("LIMIT = 3\nNAMES = {'a': 1}\ndef f(x):\n    return NAMES[x] + LIMIT", set()),
    ],
)
def test_state_is_found(source: str, state: set[str]) -> None:
    assert state_of(source) == state


def test_intervals_are_not_changed() -> None:
    """Caches hand out the same one to every thread."""
    changed = re.compile(r"^\s*[\w.]+\.(low|high|precision)\s*([-+*/|]|//)?=(?!=)")
    files = [path for path in (SOURCES / "dpcore").rglob("*.py") if "_exact.intervals import" in path.read_text()]
    assert len(files) > 10
    assert [(path.name, line) for path in files for line in path.read_text().splitlines() if changed.search(line)] == []


def test_kernels_keep_the_level_and_the_process_and_nothing_else() -> None:
    """One static variable in C that is not constant; in Cython, where it is, the levels, and which of them is in use."""
    kernels = SOURCES / "_kernels"
    static = re.compile(r"^\s*static\s+(?!.*\bconst\b)[^()]*(;|=)", re.MULTILINE)
    files = [*(kernels / "core").glob("*.c"), *(kernels / "kernels").glob("*.c")]
    assert len(files) > 15
    changing = [(path.name, match.group().split()[1]) for path in files for match in static.finditer(path.read_text())]
    assert changing == [("forks.c", "struct")]  # the number of the process: a handler of fork takes no argument; all access is atomic
    variable = re.compile(r"^cdef (?!class|enum|extern|packed|fused)([^(=#\n]*[^(=#\n ])(?: +=.*| +#.*)?$", re.MULTILINE)
    modules = [*kernels.glob("*.pyx"), *(kernels / "include").glob("*.pxi")]
    found = {(path.name, match.group(1).strip()) for path in modules for match in variable.finditer(path.read_text())}
    assert found == {
        ("_bitgen.pyx", "const uint64_t *process"),
        ("_dispatch.pyx", "dpk_kernels usable[3]"),
        ("_dispatch.pyx", "dpk_kernels without_vaes[3]"),
        ("_dispatch.pyx", "const dpk_kernels *slot"),
        ("level.pxi", "const dpk_kernels **slot"),
    }
