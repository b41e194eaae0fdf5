"""Series of studies: measured means with their standard errors, and computed values."""

from __future__ import annotations

from collections.abc import Sequence

from dpcore.reproduce.estimates import Mean, Numbers
from dpcore.reproduce.results import Form, Role, Series, floats


def measured(name: str, x: Numbers, means: Sequence[Mean], role: Role = "measured") -> Series:
    """Return means with their standard errors as points.

    Parameters
    ----------
    name : str
        Text of the legend.
    x : sequence of float
        Where they were measured.
    means : sequence of Mean
        The means.
    role : str, default "measured"
        As in `Series`.
    """
    return Series(name, floats(x), floats(mean.value for mean in means), floats(mean.stderr for mean in means), role)


def computed(name: str, x: Numbers, y: Numbers, role: Role = "theory", form: Form = "line") -> Series:
    """Return computed values as a line.

    Parameters
    ----------
    name : str
        Text of the legend.
    x, y : sequence of float
        The points.
    role : str, default "theory"
        As in `Series`.
    form : str, default "line"
        As in `Series`.
    """
    return Series(name, floats(x), floats(y), None, role, form)
