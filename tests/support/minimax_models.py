"""Models that the minimax tests share: small, and of every kind."""

from __future__ import annotations

from functools import cache

import numpy as np

from dpcore.minimax import Model


def _random_polytope() -> Model:
    generator = np.random.default_rng(20)
    size, rows = 30, 9
    inside = generator.dirichlet(np.ones(size))
    conditions = generator.normal(size=(rows, size))
    return Model(generator.normal(size=size), conditions, conditions @ inside + generator.uniform(0.02, 0.3, size=rows))


def _random_hull() -> Model:
    generator = np.random.default_rng(21)
    return Model.hull(generator.normal(size=25), generator.dirichlet(np.full(25, 0.4), size=12))


FACTORIES = {
    "simplex": lambda: Model(np.array([0.0, 3.0, -1.0, 0.5, 2.0, 2.5])),
    "two points": lambda: Model(np.array([0.0, 1.0])),
    "moment 2": lambda: Model.moment(np.linspace(-10.0, 10.0, 81), kappa=2.0, C=1.0),
    "moment 1.5": lambda: Model.moment(np.linspace(-50.0, 50.0, 101), kappa=1.5, C=1.0),
    "hoelder 1": lambda: Model.hoelder_density(np.linspace(-2.0, 2.0, 101), smoothness=1.0, C=2.0, x0=0.0),
    "hoelder 1.5": lambda: Model.hoelder_density(np.linspace(-2.0, 2.0, 31), smoothness=1.5, C=2.0, x0=0.0, m=1),
    "hoelder 2": lambda: Model.hoelder_density(np.linspace(-3.0, 3.0, 81), smoothness=2.0, C=2.0, x0=0.0, m=1),
    "polytope": _random_polytope,
    "hull": _random_hull,
    "uniform": lambda: Model.uniform_scale(3.0, cells=60),
}
NAMES = sorted(FACTORIES)


@cache
def model(name: str) -> Model:
    """The model of a name; built once."""
    return FACTORIES[name]()
