"""Which committers of Spark are accepted, on a session that only has settings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dpcore.errors import JobError
from dpcore.spark.committers import ALGORITHM, CLOUD, COORDINATION, PLAIN, PROTOCOL, check_committers

MAGIC = {PROTOCOL: CLOUD}
MANIFEST = "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"


class Values(dict):
    """Settings of a session, of its context, or of Hadoop: all are asked with `get`."""

    def get(self, name, default=None):
        return super().get(name, default)


def session(sql=None, context=None, hadoop=None):
    """Hadoop's settings are those of a write; those of the context, which the session may have changed, say nothing of note."""
    made = SimpleNamespace(getConf=lambda: Values(context or {}), _jsc=SimpleNamespace(hadoopConfiguration=Values))
    state = SimpleNamespace(newHadoopConf=lambda: Values(hadoop or {}))
    return SimpleNamespace(conf=Values(sql or {}), sparkContext=made, _jsparkSession=SimpleNamespace(sessionState=lambda: state))


@pytest.mark.parametrize("scheme", ["file", "hdfs", "viewfs", "abfss"])
def test_file_systems_with_one_rename_need_no_setting(scheme):
    assert check_committers(session(), scheme)
    assert check_committers(session({PROTOCOL: PLAIN[1]}, hadoop={ALGORITHM: "1"}), scheme)


@pytest.mark.parametrize(
    ("scheme", "hadoop"),
    [
        ("s3a", {"fs.s3a.committer.name": "magic"}),
        ("s3a", {"fs.s3a.committer.name": "directory"}),
        ("gs", {"mapreduce.outputcommitter.factory.scheme.gs": MANIFEST}),
    ],
)
def test_stores_with_a_committer_without_renames_are_accepted(scheme, hadoop):
    assert not check_committers(session(MAGIC, hadoop=hadoop), scheme)
    for sql, given in (({}, hadoop), (MAGIC, {})):
        with pytest.raises(JobError, match="renames an output file by file"):
            check_committers(session(sql, hadoop=given), scheme)


@pytest.mark.parametrize(
    ("sql", "context", "hadoop", "reason"),
    [
        ({PROTOCOL: "com.example.DirectProtocol"}, {}, {}, "one attempt of a task only"),
        ({"spark.sql.sources.outputCommitterClass": "com.example.DirectOutputCommitter"}, {}, {}, "under the final name"),
        ({"spark.sql.parquet.output.committer.class": "com.example.Other"}, {}, {}, "one attempt of a task only"),
        ({}, {COORDINATION: "false"}, {}, "two attempts of one task"),
        ({}, {}, {"spark.sql.parquet.output.committer.class": "com.example.Direct"}, "under the final name"),
        ({}, {}, {"mapreduce.outputcommitter.factory.scheme.file": "com.example.Other"}, "one attempt of a task only"),
        ({}, {}, {"mapreduce.outputcommitter.factory.class": "com.example.Other"}, "one attempt of a task only"),
        ({}, {}, {ALGORITHM: "2"}, "version 2 shows the files of a task before the job is complete"),
    ],
)
def test_settings_under_which_a_record_could_be_out_twice_are_refused(sql, context, hadoop, reason):
    with pytest.raises(JobError, match=reason):
        check_committers(session(sql, context, hadoop), "file")
