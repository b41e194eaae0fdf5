"""Steinberger (2019), Aufgabe 2.7 and Aufgabe 2.8: divergences and distances of n records."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpcore import local
from dpcore.minimax import apply, contraction_bound, kl, kl_terms, tv, tv_of_products
from dpcore.reproduce.estimates import log_slope
from dpcore.reproduce.regions import scientific
from dpcore.reproduce.results import Check, Figure, Panel, Section, Series, Slope, floats
from dpcore.reproduce.setting import Setting

Array = npt.NDArray[np.float64]
EPSILON = 1.0


# Aufgabe 2.7


def _laws(n: int, adaptive: bool) -> tuple[Array, Array, float]:
    """Joint laws of n one-bit reports on two distributions of a record, and the largest ε: it depends on the report before."""
    levels = (0.5, 1.5)
    found = []
    for share in (0.3, 0.6):
        law = np.ones(())
        for index in range(n):
            parts = []
            for before in (0, 1):
                epsilon = levels[before] if adaptive and index else levels[0]
                parts.append(apply(local.BinaryResponse(epsilon), [1 - share, share]))
            law = law[..., None] * parts[0] if law.ndim == 0 else law[..., None] * np.stack(parts)
        found.append(law)
    return found[0], found[1], max(levels)


def chain(title: str, setting: Setting) -> Section:
    """Split the divergence of sequential reports into terms.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Size of the run.
    """
    n = setting.sized(12, 8)
    p, q, epsilon = _laws(n, adaptive=True)
    terms = kl_terms(p, q)
    whole = [kl(p.sum(axis=tuple(range(i, n))).ravel(), q.sum(axis=tuple(range(i, n))).ravel()) for i in range(1, n + 1)]
    distance = tv([0.7, 0.3], [0.4, 0.6])
    most = float(contraction_bound(epsilon, distance))
    rows = p.sum(axis=tuple(range(2, n)))
    other = q.sum(axis=tuple(range(2, n)))
    conditional = kl(rows / rows.sum(axis=1, keepdims=True), other / other.sum(axis=1, keepdims=True))
    wrong = terms[0] + float(other.sum(axis=1) @ np.asarray(conditional))
    x = floats(range(1, n + 1))
    off = max(abs(total - each) / each for total, each in zip(np.cumsum(terms), whole, strict=True))
    series = (
        Series("sum of the terms", x, floats(np.cumsum(terms)), None, "measured", "points"),
        Series("divergence of the first i reports", x, floats(whole), None, "theory"),
    )
    each = (
        Series("what report i adds", x, floats(terms), None, "measured", "points"),
        Series("bound of Satz 2.9", x, (most,) * n, None, "theory"),
    )
    return Section(
        title,
        "The divergence of two laws of n reports is the divergence of the first ones plus, for each further report, the mean over the "
        "first law of the divergence of its conditional laws given the reports before it. By it, Satz 2.9 extends to sequential channels.",
        f"{n} records with P(1) = 0.3 or 0.6 and reports of one bit. The ε of a report is 0.5 after a 0 and 1.5 after a 1, so the "
        "channel is sequentially interactive. All laws are enumerated.",
        (
            Figure(
                "Left: sums of the terms. Right: the terms beside the bound of one report.",
                (Panel("reports i", "divergence", series, ""), Panel("report i", "term", each, "y")),
            ),
        ),
        (),
        (
            Check(
                "the terms sum to the divergence of the first i reports, for every i",
                f"relatively {scientific(off)} off",
                "10⁻¹²",
                off <= 1e-12,
                "identity",
            ),
            Check(
                "each term is at most the bound of Satz 2.9",
                f"{terms.max() / most:.3f} of it or less",
                "1",
                bool(terms.max() <= most),
                "identity",
            ),
            Check(
                "with means over the other law the rule fails",
                f"{wrong:.5f} in place of {whole[1]:.5f}",
                "different",
                abs(wrong - whole[1]) > 1e-4,
                "identity",
            ),
        ),
    )


# Aufgabe 2.8


def records(title: str, setting: Setting) -> Section:
    """Compare products of open records with products of private reports.

    Parameters
    ----------
    title : str
        Title of the section.
    setting : Setting
        Size of the run.
    """
    sizes = setting.sized(tuple(10**k for k in range(1, 8)), (10, 1000, 100_000))
    rare = [([1.0, 0.0], [1 - 1 / n, 1 / n]) for n in sizes]
    opened = [tv_of_products(p, q, n) for (p, q), n in zip(rare, sizes, strict=True)]
    response = local.BinaryResponse(EPSILON)
    private = [tv_of_products(apply(response, p), apply(response, q), n) for (p, q), n in zip(rare, sizes, strict=True)]
    factor = min(math.sqrt(2), math.exp(EPSILON) / math.sqrt(2)) * math.expm1(EPSILON)
    bounds = [factor * math.sqrt(n) / n for n in sizes]
    exact = [-math.expm1(n * math.log1p(-1 / n)) for n in sizes]
    n = floats(sizes)
    off = max(abs(found.upper - value) for found, value in zip(opened, exact, strict=True))
    widest = max(found.upper - found.lower for found in (*opened, *private))
    below = max(found.upper / bound for found, bound in zip(private, bounds, strict=True))
    measured, _ = log_slope(n, [found.lower for found in private])
    panels = (
        Panel(
            "records n",
            "distance of products, with tv = 1/n",
            (
                Series("open records", n, floats(f.lower for f in opened), None, "measured", "points"),
                Series("ε = 1", n, floats(f.lower for f in private), None, "second", "points"),
                Series("n·tv", n, (1.0,) * len(n), None, "theory"),
                Series("bound (2.3.5) at ε = 1", n, floats(bounds), None, "second theory"),
            ),
        ),
        Panel(
            "records n",
            "distance ÷ (n·tv)",
            (
                Series("open records", n, floats(f.lower for f in opened), None, "measured", "points"),
                Series("1 − 1/e", n, (1 - math.exp(-1),) * len(n), None, "theory"),
            ),
            "x",
            (0.5, 1.05),
        ),
    )
    return Section(
        title,
        "d_TV(P₀ⁿ, P₁ⁿ) is at most n·d_TV(P₀, P₁), and for some sequences it is of this order. Bemerkung 2.11: behind a private "
        "channel it is at most of the order √n·d_TV, which is why private rates are slower.",
        "P₀ is a point mass and P₁ moves the share 1/n of it. Distances of n records and of n one-bit reports at ε = 1 are computed from "
        "binomial tails, rounded outwards.",
        (Figure("Distances of products of n records whose distributions are 1/n apart, open and private.", panels),),
        (Slope("distance of private reports", "n", measured, 0.0, -0.5),),
        (
            Check("open records: the distance is 1 − (1 − 1/n)ⁿ", f"at most {scientific(off)} off", "10⁻⁷", off <= 1e-7, "identity"),
            Check(
                "so n·tv is at most e/(e − 1) times the distance",
                f"{max(1 / found.lower for found in opened):.4f} times or less",
                f"{1 / (1 - math.exp(-1)):.4f}",
                all(found.lower >= (1 - math.exp(-1)) * (1 - 1e-7) for found in opened),
                "identity",
            ),
            Check(
                "no distance is more than n·tv",
                f"{max(found.upper for found in opened):.4f} of it or less",
                "1",
                all(found.upper <= 1 for found in opened),
                "identity",
            ),
            Check("private reports stay below (2.3.5)", f"{below:.3f} of it or less", "1", below <= 1, "identity"),
            Check("both bounds of a distance agree", f"at most {scientific(widest)} apart", "10⁻⁷", widest <= 1e-7, "identity"),
        ),
    )
