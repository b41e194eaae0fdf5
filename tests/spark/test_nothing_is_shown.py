"""Neither the key nor a value of the data is in a setting, a log, a page or an event file of Spark."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.spark import run_alone

KEY = bytes((37 * place + 11) % 256 for place in range(32))
WORD, NUMBER = "quillfeather", 73.8125171
PROGRAM = """
import json, os, sys, time, urllib.request
from pathlib import Path
from dpcore.errors import DataError
from dpcore.spark import make_session, privatize
from dpcore.spark.noise_plans import NoisePlan
from dpcore.testing import KeyedJobKey
folder, key = sys.argv[1], bytes.fromhex(os.environ.pop("NOISE_KEY"))
NoisePlan.key = lambda plan: KeyedJobKey(key)
conf = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false", "spark.local.dir": f"{folder}/local",
        "spark.log.level": "INFO", "spark.sql.planChangeLog.level": "INFO", "spark.driver.memory": "1g"}
spark = make_session("local-cluster[2,1,1024]", conf=conf)
column = lambda name, **said: {"name": name, "epsilon": 1.0} | said
city = column("city", mechanism="kary", categories=["a", "b"], missing="a", unknown="a")
age = column("age", mechanism="laplace", lower=0, upper=100)
frame = spark.read.parquet(f"{folder}/in.parquet")
privatize(frame, {"version": 1, "privacy": {"max_epsilon": 2}, "column": [city, age]}).write(f"{folder}/one")
privatize(frame, {"version": 1, "privacy": {"max_epsilon": 2}, "column": [city, age]}).write(f"{folder}/two", committer="spark")
units = {"max_epsilon": 4, "unit": "who", "max_rows_per_unit": 2}
privatize(frame, {"version": 1, "privacy": units, "column": [city, age | {"missing": 5}]}).write(f"{folder}/three")
try:
    privatize(frame, {"version": 1, "privacy": {"max_epsilon": 2}, "column": [city | {"unknown": None}, age]}).write(f"{folder}/four")
except DataError as error:
    print("refused:", error)
url, seen = spark.sparkContext.uiWebUrl, []
app = spark.sparkContext.applicationId
pages = ["jobs/", "stages/", "environment/", "executors/", "SQL/", "storage/"]
api = ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true&length=100", "allexecutors")
pages += [f"api/v1/applications/{app}/{page}" for page in api]
pages += [f"SQL/execution/?id={number}" for number in range(6)] + [f"stages/stage/?id={number}&attempt=0" for number in range(6)]
for page in pages:
    try:
        body = urllib.request.urlopen(f"{url}/{page}").read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        body = f"none: {error.code}"
    Path(folder, "pages").mkdir(exist_ok=True)
    Path(folder, "pages", f"{len(seen)}.html").write_text(body)
    seen.append(len(body))
conf = dict(spark.sparkContext.getConf().getAll())
Path(folder, "conf.json").write_text(json.dumps({name: value for name, value in conf.items() if name != "spark.authenticate.secret"}))
spark.stop()
"""


def forms_of_key() -> list[bytes]:
    """The key as bytes, hexadecimal, base64 at every offset, and as a list of Java or Python."""
    texts = [KEY.hex(), KEY.hex().upper(), KEY.hex(" "), repr(KEY)[2:-1]]
    texts += [base64.b64encode(bytes(pad) + KEY).decode()[8 if pad else 0 : -4] for pad in range(3)]
    numbers = [byte - 256 if byte > 127 else byte for byte in KEY]
    texts += [
        ", ".join(map(str, numbers[:8])),
        ",".join(map(str, numbers[:8])),
        ", ".join(map(str, KEY[:8])),
        " ".join(f"{byte:02X}" for byte in KEY[:8]),
    ]
    return [KEY, *(text.encode() for text in texts)]


def test_neither_the_key_nor_a_value_is_in_settings_logs_pages_or_events(tmp_path):
    n = 500
    cells = {"who": [f"{WORD}-{place % 9}" for place in range(n)], "city": [WORD] * n, "age": np.full(n, NUMBER)}
    pq.write_table(pa.table(cells), tmp_path / "in.parquet", compression="none")
    (tmp_path / "events").mkdir()
    home = tmp_path / "workers"
    home.mkdir()
    done = run_alone(PROGRAM, str(tmp_path), NOISE_KEY=KEY.hex(), SPARK_WORKER_DIR=str(home))
    assert "refused: column 'city': not one of the declared categories" in done.stdout
    files = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode(), "conf": (tmp_path / "conf.json").read_bytes()}
    for folder in ("pages", "events", "workers"):
        files |= {str(path): path.read_bytes() for path in (tmp_path / folder).rglob("*") if path.is_file() and path.suffix != ".jar"}
    assert sum("pages" in name for name in files) > 10
    assert sum("events" in name for name in files) >= 1
    assert b"mapInArrow" in b"".join(files.values()) or b"MapInArrow" in b"".join(files.values())
    wanted = [*forms_of_key(), WORD.encode(), str(NUMBER).encode()]
    found = [(name, form[:12]) for name, content in files.items() for form in wanted if form in content]
    assert found == []
    assert json.loads(files["conf"])["spark.io.encryption.enabled"] == "true"


def test_the_search_finds_the_key_in_each_form():
    for form in forms_of_key():
        assert any(each in b"log: " + form + b" end" for each in forms_of_key())
    assert all(len(form) > 15 for form in forms_of_key())
    assert Path(__file__).exists()
