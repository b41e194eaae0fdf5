"""A driver that is killed between reservation, sealing and publication: the next process publishes what is sealed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from dpcore.accounting import Ledger
from dpcore.batch import estimate
from dpcore.errors import JobError
from dpcore.spark import privatize
from support.spark import run_alone
from support.spark_noise import ROWS, is_complete, job, rows_of, write_input

PROGRAM = """
import os, signal, sys
from pathlib import Path
from dpcore.tables.output.charge import Charge
from dpcore.spark import folders, make_session, own_files, privatize
from support.spark_noise import job

place, folder, source = sys.argv[1:4]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name):
    whole = getattr(owner, name)
    def act(*arguments, **named):
        result = whole(*arguments, **named)
        die()
        return result
    setattr(owner, name, act)

match place:
    case "reserved": after(Charge, "reserve")
    case "written": after(own_files, "watched")
    case "sealed": after(Charge, "seal")
    case "published": after(folders.FolderPublication, "_show")
    case "done": after(Charge, "published")

spark = make_session("local[2]", conf={"spark.ui.enabled": "false", "spark.local.dir": f"{folder}/local"})
said = job(keyed=False, ledger={"path": f"{folder}/people.ledger"})
privatize(spark.read.parquet(source), said).write(f"{folder}/out")
"""
STATES = {"reserved": "reserved", "written": "reserved", "sealed": "sealed", "published": "sealed", "done": "done"}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> str:
    return write_input(tmp_path_factory.mktemp("people") / "in", files=2)


@pytest.mark.parametrize("place", STATES)
def test_the_next_process_publishes_what_is_sealed_and_nothing_else_is_seen(spark, source, tmp_path, place):
    Ledger.create(tmp_path / "people.ledger", epsilon=5.0)
    tests = str(Path(__file__).resolve().parents[1])
    dead = run_alone(PROGRAM, place, str(tmp_path), source, check=False, PYTHONPATH=tests)
    assert dead.returncode == -signal.SIGKILL, dead.stderr[-2000:]
    (entry,) = Ledger(tmp_path / "people.ledger").entries()
    assert entry.state == STATES[place]
    assert (tmp_path / "out").exists() is (place in ("published", "done"))

    Ledger(tmp_path / "people.ledger").complete()
    is_sealed = place in ("sealed", "published", "done")
    assert (tmp_path / "out").exists() is is_sealed
    said = job(keyed=False, ledger={"path": str(tmp_path / "people.ledger")})
    frame = spark.read.parquet(source)
    if is_sealed:
        assert estimate(tmp_path / "out").rows == ROWS
        with pytest.raises(JobError, match="already published"):
            privatize(frame, said).write(tmp_path / "out")
    else:
        privatize(frame, said).write(tmp_path / "out")  # a new reservation: the key died with the driver
    ledger = Ledger(tmp_path / "people.ledger")
    assert [each.state for each in ledger.entries()] == (["done"] if is_sealed else ["reserved", "done"])
    assert ledger.spent.epsilon == (2.0 if is_sealed else 4.0)
    assert is_complete(rows_of(tmp_path / "out"))
    left = {path.name for path in tmp_path.iterdir()} - {"local", "out", "people.ledger"}
    assert not {name for name in left if name.startswith(".out")}, left


def test_the_program_of_this_test_runs_to_its_end_if_nobody_kills_it(source, tmp_path):
    Ledger.create(tmp_path / "people.ledger", epsilon=5.0)
    run_alone(PROGRAM, "nowhere", str(tmp_path), source, PYTHONPATH=str(Path(__file__).resolve().parents[1]))
    assert is_complete(rows_of(tmp_path / "out"))
    assert sys.executable
