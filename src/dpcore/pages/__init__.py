"""The parts of every HTML page: templates, plots, numbers, and words."""

__all__: list[str] = []


def __dir__() -> list[str]:
    return __all__
