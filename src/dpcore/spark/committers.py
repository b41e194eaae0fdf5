"""Spark's own committers: which of them publish each record once, and why the others are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROTOCOL = "spark.sql.sources.commitProtocolClass"
PLAIN = (
    "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
    "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol",
)
CLOUD = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
COMMITTERS = {
    "spark.sql.sources.outputCommitterClass": ("org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter",),
    "spark.sql.parquet.output.committer.class": (
        "org.apache.parquet.hadoop.ParquetOutputCommitter",
        "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    ),
}
"""Settings that name a committer, and the committers that move the files of one attempt only."""
ALGORITHM = "mapreduce.fileoutputcommitter.algorithm.version"
COORDINATION = "spark.hadoop.outputCommitCoordination.enabled"
RENAMING = ("file", "hdfs", "viewfs", "abfs", "abfss", "ofs")
"""File systems on which a folder is renamed in one step."""
S3_NAMES = ("magic", "directory", "partitioned")
FACTORY = "mapreduce.outputcommitter.factory"
FACTORIES = (
    "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory",
    "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
)
MANIFESTS = (
    "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory",
    "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory",
)
"""Committers that list their files, which they rename when the job is complete."""


def check_committers(spark: SparkSession, scheme: str) -> bool:
    """Check what would commit the tasks of a write.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session.
    scheme : str
        Of the address of the output, such as "hdfs"; "file" for a path of this machine.

    Returns
    -------
    bool
        Whether the output is written under a hidden name and renamed. Otherwise the committer itself shows it when the job is complete,
        which is not tested here.

    Raises
    ------
    JobError
        If a task that is repeated could leave its rows behind, with the reason.
    """
    session: Any = spark._jsparkSession  # noqa: SLF001 - from which Spark makes writes: files of Hadoop under the settings of the session
    hadoop = session.sessionState().newHadoopConf()
    protocol = spark.conf.get(PROTOCOL, PLAIN[0]) or PLAIN[0]
    if protocol not in (*PLAIN, CLOUD):
        raise JobError(f"{PROTOCOL} is {protocol!r}: it is not known to publish one attempt of a task only; leave it unset")
    for name, known in COMMITTERS.items():
        found = spark.conf.get(name, None) or hadoop.get(name, None)
        if found and found not in known:
            direct = " It writes under the final name, where rows of an attempt that fails stay." if "irect" in found else ""
            raise JobError(f"{name} is {found!r}: it is not known to publish one attempt of a task only.{direct} Leave it unset")
    if spark.sparkContext.getConf().get(COORDINATION, "true").lower() != "true":
        raise JobError(f"{COORDINATION} is false: two attempts of one task may then both commit their rows; leave it unset")
    version = hadoop.get(ALGORITHM, "1")
    if version != "1":
        raise JobError(
            f"{ALGORITHM} is {version!r}: version 2 shows the files of a task before the job is complete, and those of one that fails as "
            f"it commits stay, so that its records are out twice; set spark.hadoop.{ALGORITHM} to 1"
        )
    factory = hadoop.get(f"{FACTORY}.scheme.{scheme}", "") or hadoop.get(f"{FACTORY}.class", "") or ""
    if factory not in ("", *FACTORIES, *MANIFESTS):
        raise JobError(f"{FACTORY}.scheme.{scheme} is {factory!r}: it is not known to publish one attempt of a task only; leave it unset")
    if scheme in RENAMING:
        return True
    _check_store(hadoop, scheme, protocol, factory)
    return False


def _check_store(hadoop: Any, scheme: str, protocol: str, factory: str) -> None:
    """Raise `JobError` unless a store, which renames file by file, has a committer that needs no rename."""
    name = hadoop.get("fs.s3a.committer.name", "file")
    has_one = factory in MANIFESTS or (scheme == "s3a" and name in S3_NAMES and factory in ("", FACTORIES[1]))
    if protocol == CLOUD and has_one:
        return
    wanted = "fs.s3a.committer.name = magic" if scheme == "s3a" else f"{FACTORY}.scheme.{scheme} = {MANIFESTS[0]}"
    raise JobError(
        f"{scheme}: a store renames an output file by file, so that a part of it would be seen; it needs a committer without renames: "
        f"set {PROTOCOL} to {CLOUD} and spark.hadoop.{wanted}"
    )
