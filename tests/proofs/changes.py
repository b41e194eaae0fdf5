"""Changes of the kernels' sources that a proof must notice. They are planted in a copy that nothing compiles."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from proofs.c_source import KERNELS


@dataclass(frozen=True)
class Change:
    """One change.

    Attributes
    ----------
    name : str
        What is changed.
    file : str
        The file, in the folder of the kernels.
    old, new : str
        Text that occurs once, and what replaces it.
    lemma : str
        A lemma whose proof must fail.
    """

    name: str
    file: str
    old: str
    new: str
    lemma: str


LANES, NOISE, SAMPLES = "kernels/lanes.h", "core/noise.c", "kernels/samples.h"
CHANGES = (
    Change("an operation is swapped", LANES, "return (1.0 - m) / (m + 1.0);", "return (1.0 + m) / (m + 1.0);", "logarithm"),
    Change(
        "a factor is left out",
        LANES,
        "return muladd(negated, DPK_LN2, ratio * muladd(",
        "return muladd(negated, DPK_LN2, muladd(",
        "logarithm",
    ),
    Change("ln 2 is off by one ulp", LANES, "#define DPK_LN2 0x1.62e42fefa39efp-1", "#define DPK_LN2 0x1.62e42fefa39eep-1", "exponential"),
    Change("a coefficient is off by one ulp", LANES, "z, 0x1.921fb54442d18p+0)", "z, 0x1.921fb54442d17p+0)", "polynomial-sin"),
    Change("a digit of a coefficient", LANES, "0x1.2492492df148dp-2", "0x1.2492492ef148dp-2", "polynomial-atanh"),
    Change("a coefficient of the cosine", LANES, "z, -0x1.3bd3cc9be45dbp+0)", "z, -0x1.3bd3cc9be45dap+0)", "polynomial-cos"),
    Change(
        "the border of the reduction is off by one ulp",
        LANES,
        "bits_of(d) - 0x3fe6a09e667f3bcdu",
        "bits_of(d) - 0x3fe6a09e667f3bccu",
        "reduce",
    ),
    Change(
        "a constant of the conversion is off by one ulp", LANES, "(high - 0x1.00000801p84)", "(high - 0x1.0000080100001p84)", "from-int64"
    ),
    Change("the shift of the rounding is halved", LANES, "#define DPK_SHIFT 0x1.8p52", "#define DPK_SHIFT 0x1.8p51", "nearest-small"),
    Change(
        "the border of rare samples is lower",
        LANES,
        "#define DPK_RARE_EXPONENTIAL 0x1p50",
        "#define DPK_RARE_EXPONENTIAL 0x1p49",
        "laplace-sample",
    ),
    Change("what d was rounded by is left out", LANES, "double f = (m - 1.0) + (a - (d - one));", "double f = m - 1.0;", "radius-near-one"),
    Change("rare radii are decided", LANES, "(a < 0x1p-15)", "(a < 0x1p-18)", "radius"),
    Change("a sign of the circle", LANES, "((octant ^ (octant << 1)) & 0x8", "((octant | (octant << 1)) & 0x8", "octants"),
    Change("a bound is smaller", NOISE, "BETA_LAPLACE = 5 * 0x1p-53", "BETA_LAPLACE = 4 * 0x1p-53", "laplace-sample"),
    Change("the slack is smaller", NOISE, "SLACK = 0x1p-50", "SLACK = 0x1p-53", "release"),
    Change("a bound is left out of a step", "kernels/grid.h", "step * p->beta, 0.5", "step * p->alpha, 0.5", "release"),
    Change("low parts weigh less", "kernels/grid.h", "muladd(0x1p-52, fabs(part)", "muladd(0x1p-53, fabs(part)", "release"),
    Change("lanes share their angle", SAMPLES, "circle_lane(words[i + DPK_HALF_GROUP]", "circle_lane(words[i | 1]", "blocks"),
    Change("a proposal is taken too early", "kernels/discrete.inc.c", "<= 65534.75;", "<= 65535.75;", "rounded-normal"),
    Change(
        "a tie of a table is decided", "kernels/discrete.inc.c", "t[v] |= m[v] == threshold;", "t[v] |= m[v] > threshold;", "table-search"
    ),
    Change(
        "a guide decides a tie",
        "kernels/discrete.inc.c",
        "(uint64_t)(entry == m) ? DPK_OPEN",
        "(uint64_t)(entry == m + 1) ? DPK_OPEN",
        "guides",
    ),
    Change(
        "a part with two entries is decided", NOISE, "entries[below + 1] < end;", "entries[below + 1] < part << DPK_GUIDE_SHIFT;", "guides"
    ),
    Change("the slack of retries is left out", "core/retries.c", "muladd(sigma, p->alpha, p->slack)", "sigma * p->alpha", "retries"),
    Change(
        "a sum of selections is swapped",
        "core/unit_noise.h",
        "return c * DPK_LN2 - s * muladd(",
        "return c * DPK_LN2 + s * muladd(",
        "selection-logarithm",
    ),
    Change(
        "a new function without a lemma",
        SAMPLES,
        "        z[i] = radius[i] * cosine;",
        "        z[i] = shorter(radius[i]) * cosine;",
        "coverage",
    ),
)
NEW_FUNCTION = "DPK_INLINE double shorter(double x) { return x; }\n\n"
"""What the last change calls."""


def planted(change: Change, folder: Path) -> Path:
    """Copy the sources into a folder and change them there; raises ValueError unless the old text occurs once."""
    copy = folder / "kernels"
    shutil.copytree(KERNELS, copy, ignore=shutil.ignore_patterns("_*.c", "*.so", "__pycache__"))
    path = copy / change.file
    text = path.read_text(encoding="utf-8")
    if (found := text.count(change.old)) != 1:
        raise ValueError(f"{change.name}: the old text occurs {found} times")
    text = text.replace(change.old, change.new)
    if change.lemma == "coverage":
        text = text.replace("/* Pre: one group.", f"{NEW_FUNCTION}/* Pre: one group.", 1)
    path.write_text(text, encoding="utf-8")
    return copy
