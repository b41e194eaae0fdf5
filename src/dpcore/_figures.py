"""Plots into a file or on axes. matplotlib is of the extra `report` and is imported only when a file is drawn."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpcore._extras import needs, refuse_old
from dpcore.errors import ParameterTypeError


def drawn_on(target: Any, draw: Callable[[Any], object], size: tuple[float, float]) -> Any:
    """Call draw(axes) and return the target: the axes as they are, or the path of a file that is written.

    Parameters
    ----------
    target : path or matplotlib axes
        A file, whose ending is a type that matplotlib knows; or axes.
    draw : callable
        Draws on axes.
    size : tuple of float
        Width and height of a figure in a file, in inches.

    Raises
    ------
    ParameterTypeError
        If the target is neither.
    ModuleNotFoundError
        If it is a file and matplotlib is not installed.
    """
    if not isinstance(target, str | os.PathLike):
        if not hasattr(target, "plot"):
            raise ParameterTypeError(f"target must be a path or matplotlib axes, got {type(target).__name__}")
        draw(target)
        return target
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(needs("plots need", "report"), name=error.name) from error
    refuse_old("matplotlib")
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    figure.savefig(path := Path(target))
    return path
