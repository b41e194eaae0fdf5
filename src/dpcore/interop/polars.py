"""Mechanisms on polars: `release` for frames and Series, and the namespace ``dp`` of expressions.

`release` draws once, and its result does not change. A LazyFrame with an expression of the namespace is a plan, and a plan draws anew each
time it is collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpcore._dataclasses import dataclass
from dpcore.errors import ForeignPatchError, ParameterError, ParameterTypeError
from dpcore.interop._installation import Installation, Installed, Replacement
from dpcore.interop._needed import needed
from dpcore.interop._peers import Peer

if TYPE_CHECKING:
    import polars as pl

    from dpcore.interop._columns import ColumnNoise
    from dpcore.interop._forms import Form
    from dpcore.rng import Stream

__all__ = ["PEER", "Namespace", "install", "release", "uninstall"]

PEER = Peer(module="polars", distribution="polars", tested=("1.44", "2.1"), extra="polars", lowest="1.44")
ARROW = Peer(module="pyarrow", distribution="pyarrow", tested=("18", "20", "25", "26"), extra="batch")


def release(
    data: Any,
    mechanism: Any,
    *,
    missing: Any = None,
    dtype: Literal["column", "mechanism"] = "column",
    keep: Sequence[str] = (),
    engine: Literal["auto", "in-memory", "streaming", "gpu"] = "auto",
    rng: Stream | None = None,
    threads: int | None = None,
) -> Any:
    """Release every value of a Series, or of columns of a frame, once.

    Parameters
    ----------
    data : polars.Series, DataFrame or LazyFrame
        A Series, for one mechanism; a frame, for a mapping. A LazyFrame is collected once, with the columns that are named.
    mechanism : object, or mapping of str to object
        Of `dpcore.mechanisms` or `dpcore.local`; or one for each column by its name.
    missing : "refuse", "keep", or a value; or mapping of str to these
        What becomes of nulls and NaN, as in `dpcore.interop.arrow.release`. Any column of polars may have nulls, so it is required unless
        the mechanism itself has `missing` or `unknown`.
    dtype : {"column", "mechanism"}, default "column"
        "column": the type of the column where it can hold the results. "mechanism": Float64, Int64, Boolean or codes.
    keep : sequence of str, optional
        Columns of a frame that the result has as they are. They are not protected. All others are left out.
    engine : {"auto", "in-memory", "streaming", "gpu"}, default "auto"
        Of `collect`, for a LazyFrame.
    rng : Stream, optional
        None is the secure source.
    threads : int, optional
        Number of threads; None chooses it by the number of values and of processors.

    Returns
    -------
    polars.Series or DataFrame
        With the same chunks.

    Raises
    ------
    ParameterError, ParameterTypeError, DataError, EntropyError
        As `dpcore.interop.arrow.release`.
    ModuleNotFoundError
        If polars or pyarrow is not installed.

    Notes
    -----
    Guarantee: that of the mechanism, for one release: the result is in memory, and asking for it again draws nothing.

    Cost: that of the mechanism. Numbers are read where polars has them, and it takes the results where they are.

    Examples
    --------
    >>> import polars as pl
    >>> from dpcore.interop import polars as dp
    >>> from dpcore.mechanisms import DiscreteLaplace
    >>> visits = pl.LazyFrame({"clinic": ["a", "a", "b"]}).group_by("clinic", maintain_order=True).agg(pl.len().cast(pl.Int64))
    >>> released = dp.release(visits, {"len": DiscreteLaplace(1.0, 1)}, missing="refuse", keep=["clinic"])
    >>> released.columns, released.schema["len"]
    (['clinic', 'len'], Int64)
    """
    needed(PEER, ARROW)
    import polars as pl

    from dpcore.interop._columns import ColumnNoise, TableNoise, refused

    if isinstance(data, pl.Series):
        if isinstance(mechanism, Mapping) or len(keep):
            raise ParameterTypeError("a Series takes one mechanism, and keep is for frames")
        noise = ColumnNoise.of(mechanism, missing, dtype, rng, threads)
        noise.check_declared("a Series of polars")
        return _series(data, noise)
    if not isinstance(data, pl.DataFrame | pl.LazyFrame):
        raise refused(data, "a Series, a DataFrame or a LazyFrame of polars")
    table = TableNoise.of(mechanism, missing, dtype, keep, rng, threads)
    for name, each in table.columns.items():
        each.check_declared(f"the column {name!r}")
    names = table.chosen(data.collect_schema().names())
    frame = data.select(names).collect(engine=engine) if isinstance(data, pl.LazyFrame) else data
    return pl.DataFrame([_named(name, frame.get_column(name), table.columns.get(name)) for name in names])


def _named(name: str, column: pl.Series, noise: ColumnNoise | None) -> pl.Series:
    from dpcore.errors import DataError

    if noise is None:
        return column
    try:
        return _series(column, noise)
    except (DataError, ParameterTypeError) as error:
        raise type(error)(f"column {name!r}: {error}") from None


def _series(column: pl.Series, noise: ColumnNoise) -> pl.Series:
    """The reports of a Series."""
    import polars as pl

    from dpcore.interop._cells import without_views
    from dpcore.interop.arrow import chunked

    cells = without_views(chunked(column))
    noise.result(cells.type, which="a Series of polars")
    _check_enum(column, noise)
    found = pl.Series(_Stream(noise.chunked(cells))).rename(column.name)
    if isinstance(column.dtype, pl.Enum | pl.Categorical) and isinstance(found.dtype, pl.Enum | pl.Categorical | pl.String):
        return found if found.dtype == column.dtype else found.cast(column.dtype)
    return found


def _check_enum(column: pl.Series, noise: ColumnNoise) -> None:
    import polars as pl

    labels = getattr(noise.form.mechanism, "categories", None)
    if isinstance(column.dtype, pl.Enum) and labels is not None and not set(labels) <= set(column.dtype.categories):
        raise ParameterError("the Enum of the column does not have all categories of the mechanism; cast it to String first")


@dataclass(frozen=True, slots=True)
class _Stream:
    """An array that polars takes by its stream, which keeps its chunks."""

    cells: Any

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.cells.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class _OnBatches:
    """What polars calls with each piece of a column. It can be pickled, as a plan that is sent to another process must be."""

    noise: ColumnNoise

    def __call__(self, column: pl.Series) -> pl.Series:
        return _series(column, self.noise)


class Namespace:
    """The namespace ``dp`` of polars expressions, after `install`.

    Parameters
    ----------
    expr : polars.Expr
        The column, or any expression, whose values are released.

    Notes
    -----
    What an expression cannot promise:

    - Each `collect` of a plan draws anew. Two results of one plan are two releases: together they cost twice the budget, and their average
      has less noise than either. Collect once and keep the result, or use `release`, which does.
    - polars supposes that functions give the same result for the same input. An expression that is written twice, also under two names or
      in a filter and a selection, may be evaluated twice, with different noise, or once. Put it into `with_columns`, collect, and go on
      with the result.
    - A value that polars repeats over rows is not drawn for each of them: a literal, or an answer such as a sum in ``with_columns``, beside
      a column in ``select``, or in ``over``. The in-memory engine draws it once. The streaming engine draws for each piece, or each row,
      and the average of many noisings of one answer has no noise. Both draw an answer once in a ``select`` of nothing but aggregates, and
      once for each group in ``group_by(…).agg(…)``.
    - polars evaluates a column in pieces, in any order and on several threads: with a keyed `rng` the same plan can give other numbers.

    What it does promise: the expression is declared elementwise, so that the streaming engine evaluates each piece once, and every value
    that reaches the mechanism gets its own exact noise.

    Examples
    --------
    >>> import polars as pl
    >>> from dpcore.interop import polars as dp
    >>> from dpcore.local import LocalLaplace
    >>> people = pl.LazyFrame({"age": [31.0, 45.0, None]})
    >>> with dp.install():
    ...     plan = people.select(pl.col("age").dp.release(LocalLaplace(1.0, 0.0, 100.0), missing="keep"))
    >>> plan.collect()["age"].null_count()
    1
    """

    __slots__ = ("_expr",)

    def __init__(self, expr: pl.Expr) -> None:
        self._expr = expr

    def release(
        self,
        mechanism: Any,
        *,
        missing: Any = None,
        dtype: Literal["column", "mechanism"] = "column",
        rng: Stream | None = None,
        threads: int | None = None,
    ) -> pl.Expr:
        """Release every value each time that the expression is evaluated.

        Parameters
        ----------
        mechanism : object
            Of `dpcore.mechanisms` or `dpcore.local`.
        missing : "refuse", "keep", or a value
            What becomes of nulls and NaN, as in `dpcore.interop.arrow.release`. Required unless the mechanism itself has `missing` or
            `unknown`.
        dtype : {"column", "mechanism"}, default "column"
            "column": the type of the column where it can hold the results. "mechanism": Float64, Int64, Boolean or codes.
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads for each piece; None chooses it by the number of values and of processors.

        Returns
        -------
        polars.Expr
            An elementwise expression.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an argument does not fit. What depends on the column is raised when the plan is collected. A column of text, for a mechanism
            of real numbers, is refused by polars, as one whose type it cannot infer.

        Notes
        -----
        Guarantee: that of the mechanism, for each evaluation; see `Namespace` for how many there are.

        Cost: that of the mechanism, and about 50 µs for each piece of up to 100,000 rows.
        """
        from dpcore.interop._columns import ColumnNoise

        noise = ColumnNoise.of(mechanism, missing, dtype, rng, threads)
        noise.check_declared("a column of polars")
        return self._expr.map_batches(_OnBatches(noise), _result_type(noise.form), is_elementwise=True)


def _result_type(form: Form) -> Any:
    """The type of an expression, where the mechanism alone decides it. None: polars asks the function, with values of its own."""
    import polars as pl
    import pyarrow as pa

    from dpcore.interop._forms import Answers, CategoryReports, Integers, Reals

    if form.keeps_type and isinstance(form, Integers | Answers | CategoryReports):
        return pl.self_dtype()
    if form.keeps_type and isinstance(form, Reals):
        return None
    return pl.Series(_Stream(pa.chunked_array([], type=form.result(pa.int64())))).dtype


class _Accessor:
    """The attribute `dp` of expressions."""

    __slots__ = ()

    def __get__(self, expr: pl.Expr | None, owner: type) -> Namespace | type[Namespace]:
        return Namespace if expr is None else Namespace(expr)


def _replacements() -> Iterator[Replacement]:
    import polars as pl

    found = vars(pl.Expr).get("dp")
    if found is not None:
        raise ForeignPatchError("polars.Expr.dp is another library's namespace; this one cannot be registered beside it")
    yield Replacement(pl.Expr, "dp", _Accessor())


_INSTALLATION = Installation(PEER, _replacements)


def install() -> Installed:
    """Register the namespace ``dp`` of expressions, for the whole process.

    Returns
    -------
    Installed
        A context manager that removes it at its end. Expressions that were made meanwhile go on working.

    Raises
    ------
    ModuleNotFoundError
        If polars or pyarrow is not installed.
    ParameterError
        If polars is only half imported.
    ForeignPatchError
        If another library has a namespace of this name.

    Notes
    -----
    Each process registers for itself. Plans that were made in another process, and pickled, need no registration.

    Cost: microseconds.

    Examples
    --------
    >>> import polars as pl
    >>> from dpcore.interop import polars as dp
    >>> with dp.install():
    ...     hasattr(pl.Expr, "dp")
    True
    """
    ARROW.require()
    return _INSTALLATION.install()


def uninstall() -> None:
    """Remove the namespace; do nothing if it is not registered.

    Raises
    ------
    ForeignPatchError
        If another library has replaced it in the meantime.

    Notes
    -----
    Cost: microseconds.

    Examples
    --------
    >>> from dpcore.interop import polars as dp
    >>> dp.uninstall()
    """
    _INSTALLATION.uninstall()
