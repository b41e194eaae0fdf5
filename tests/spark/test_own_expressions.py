"""Every expression of the Spark that runs is known: it is Spark's own and gives the same for the same cells, or it is not accepted."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark
import pytest

from dpcore.spark.own_expressions import OWN, PACKAGE

NAMES = """
AesEncrypt ApplyFunctionExpression BinaryPredicate Bucket CallMethodViaReflection CheckConstraint CheckInvariant CounterDiff
CounterDiffWithStartTime CumeDist CurrentBatchTimestamp CursorReference Days DenseRank DirectShufflePartitionID DistributedSequenceID
EWM ExpressionProxy ExternalUserDefinedFunction ForeignKeyConstraint FromAvro FromProtobuf FunctionTableSubqueryArgumentExpression
Hours InputFileBlockLength InputFileBlockStart InputFileName JsonTable Lag LastNonNull Lead MonotonicallyIncreasingID Months NTile
NamePlaceholder NamedArgumentExpression NthValue NullIndex OuterScopeReference PercentRank PipeExpression PrettyAttribute
PrettyPythonUDF PrimaryKeyConstraint PrintToStderr PythonUDAF PythonUDF PythonUDTF Rand RandStr Randn Rank ReplicateRows RowNumber
ScalaUDF SchemaOfAvro SemiStructuredExtract Shuffle SortPrefix SparkPartitionID ToAvro ToJavaArray ToProtobuf TransformExpression
TranspiledPythonUDF TranspiledUDFParameter TryReflect UniqueConstraint Unnest UnwrapUDT UserDefinedGenerator Uuid VariableReference
Years aggregate.Measure aggregate.NoOp aggregate.PandasCovar aggregate.PandasKurtosis aggregate.PandasMode aggregate.PandasProduct
aggregate.PandasSkewness aggregate.PandasStddev aggregate.PandasVariance aggregate.V2Aggregator
"""
DECLINED = frozenset(PACKAGE + name for name in NAMES.split())
"""Functions of users, calls by reflection, chance, what numbers rows or looks at neighbours, transforms of tables, parts of commands."""
BELOW = re.compile(r"(objects|variant|st|codegen)\.|Unresolved")
"""Not accepted as a whole: calls of Java, values whose type is in the cell, shapes, and what no analysed plan has."""
HANDED_IN = re.compile(r"org\.apache\.spark\.api\.python\.|org\.apache\.spark\.sql\.connector\.catalog\.functions\.|java\.lang\.reflect\.")
"""Types of fields that hold code from outside of Spark."""
OF_USERS = re.compile(r"Python|UD[AFTG]F?\b|UserDefined|Reflect|External")


@pytest.fixture(scope="module")
def classes(spark):
    """Java's classes of all expressions, by their names."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-catalyst_*.jar")
    files = zipfile.ZipFile(jar).namelist()
    names = sorted({name.removesuffix(".class").replace("/", ".") for name in files if re.fullmatch(r"[\w/]+\$?\.class", name)})
    java = spark.sparkContext._jvm.java.lang
    kind = java.Class.forName(f"{PACKAGE}Expression")
    found = {name: java.Class.forName(name) for name in names if name.startswith(PACKAGE)}
    abstract = java.reflect.Modifier.isAbstract
    return {name.rstrip("$"): each for name, each in found.items() if kind.isAssignableFrom(each) and not abstract(each.getModifiers())}


def runs_code_of_others(found) -> bool:
    """Whether a class says so by its name, its kin or a field: nothing here knows the lists."""
    of_users = found.getClassLoader().loadClass(f"{PACKAGE}UserDefinedExpression")
    fields = [str(field.getType().getName()) for field in found.getDeclaredFields()]
    return of_users.isAssignableFrom(found) or OF_USERS.search(found.getSimpleName()) is not None or any(map(HANDED_IN.match, fields))


def test_every_expression_is_in_one_list(classes):
    assert len(classes) > 500
    assert not OWN & DECLINED
    assert [name for name in classes if name not in OWN | DECLINED and not BELOW.match(name.removeprefix(PACKAGE))] == []
    assert [name for name in OWN if BELOW.match(name.removeprefix(PACKAGE))] == []


def test_none_that_is_accepted_runs_code_of_others_or_draws(classes):
    """The check finds those that are known to."""
    nondeterministic = next(iter(classes.values())).getClassLoader().loadClass(f"{PACKAGE}Nondeterministic")
    foreign = {name for name, each in classes.items() if runs_code_of_others(each)}
    drawing = {name for name, each in classes.items() if nondeterministic.isAssignableFrom(each)}
    for name in (
        "PythonUDF",
        "PythonUDAF",
        "PythonUDTF",
        "ScalaUDF",
        "UserDefinedGenerator",
        "ApplyFunctionExpression",
        "aggregate.V2Aggregator",
    ):
        assert PACKAGE + name in foreign
    assert {PACKAGE + name for name in ("Rand", "Uuid", "CallMethodViaReflection")} <= drawing
    assert not (foreign | drawing) & OWN
