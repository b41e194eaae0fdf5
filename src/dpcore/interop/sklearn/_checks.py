"""Which of scikit-learn's checks of estimators a private estimator cannot pass, each with its reason."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Return which checks of `sklearn.utils.estimator_checks.check_estimator` an estimator fails by design.

    Parameters
    ----------
    estimator : object
        An estimator of `dpcore.interop.sklearn`.

    Returns
    -------
    dict of str to str
        Names of checks, and why each must fail. Every other check passes.

    Raises
    ------
    ModuleNotFoundError
        If scikit-learn is not installed.

    Examples
    --------
    >>> from sklearn.utils.estimator_checks import check_estimator  # doctest: +SKIP
    >>> from dpcore.interop.sklearn import PrivateCovariance, expected_failed_checks  # doctest: +SKIP
    >>> model = PrivateCovariance(1.0, 1e-6, radius=5.0, refit=True)  # doctest: +SKIP
    >>> results = check_estimator(model, expected_failed_checks=expected_failed_checks(model))  # doctest: +SKIP
    """
    if getattr(estimator, "refit", True) or estimator.ledger is not None:
        return {}
    names = list(_FIT_TWICE[None])
    for kind, more in _FIT_TWICE.items():
        if kind is not None and isinstance(estimator, kind):
            names += more
    return dict.fromkeys(names, REASON)


REASON = "it fits one object twice, which spends the budget again: refused unless refit=True or there is a ledger"
_FIT_TWICE: dict[type | None, tuple[str, ...]] = {
    None: ("check_dtype_object", "check_fit_idempotent", "check_pipeline_consistency"),
    RegressorMixin: ("check_regressors_train", "check_supervised_y_2d"),
    ClassifierMixin: ("check_classifiers_train", "check_supervised_y_2d"),
    TransformerMixin: (
        "check_fit_score_takes_y",
        "check_transformer_data_not_an_array",
        "check_transformer_general",
        "check_transformer_preserve_dtypes",
    ),
}
"""Checks that fit one object twice: of every estimator, and of some kinds. With `refit=True` they pass."""
