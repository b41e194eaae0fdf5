"""Commitment, noise and seal of a release that can be replayed are what the page says, computed here from the key file alone."""

from __future__ import annotations

import copy
import hashlib
import hmac
import html
import json
import os
import re

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from dpcore import __version__
from dpcore.accounting import Ledger
from dpcore.batch import load_release_job, make_release_plan, release
from dpcore.errors import JobError, ParameterError, ParameterTypeError
from dpcore.mechanisms import DiscreteLaplace
from dpcore.query import commitments, job_documents
from dpcore.query.commitments import CommittedNoise
from dpcore.query.page import MATCH, NOT_TRIED
from dpcore.rng import STREAM_VERSION
from dpcore.testing import KeyedRandom
from support.commits import Kept, commitment, derived, every_job, parts_of, small_job
from support.lower_bounds import PYPROJECT
from support.releases import REGIONS

RANDOM = bytes(range(16))
EMPTY = {"regions": {"kind": "histogram", "column": "region", "categories": REGIONS, "missing": "west", "unknown": "north"}}


@pytest.fixture
def place(tmp_path, capsys):
    return Kept(tmp_path, capsys)


def test_known_answers():
    """With `hmac` and `hashlib` of the standard library, a second time by hand from SHA-256."""
    key, blinder, line = bytes(range(32)), bytes(range(100, 132)), b'{"run": "x"}'
    message = b"".join(
        [
            (27).to_bytes(8, "little") + b"dpcore release commitment 1",
            (32).to_bytes(8, "little") + key,
            (12).to_bytes(8, "little") + line,
            (3).to_bytes(8, "little"),
        ]
    )
    padded = blinder + bytes(32)
    inner = hashlib.sha256(bytes(each ^ 0x36 for each in padded) + message).digest()
    by_hand = hashlib.sha256(bytes(each ^ 0x5C for each in padded) + inner).hexdigest()
    assert by_hand == commitment(key, blinder, line)
    from dpcore._backend import Key
    from dpcore.tables.output.key_file import Secret

    assert commitments.commitment_of(Secret(Key(key), Key(blinder)), line) == by_hand


def test_what_a_document_and_its_key_file_say(place):
    small_job(place)
    assert place.commit().code == 0
    document, (key, blinder, line, others) = place.document, parts_of(place.key)
    said, about = document["commitment"], json.loads(line)
    assert list(said) == ["format", "hmac_sha256", "deposited", "public_randomness", "code", "seal"]
    assert said["hmac_sha256"] == commitment(key, blinder, line)
    assert (said["format"], said["deposited"], said["public_randomness"]) == (1, False, None)
    assert said["code"] == about["code"]
    assert (said["code"]["version"], said["code"]["stream_version"]) == (__version__, STREAM_VERSION)
    assert about["run"] == document["run"]
    assert about["source"]["sha256"] == hashlib.sha256(place.job.read_bytes()).hexdigest() == document["job"]["sha256"]
    assert document["secure"] is True
    digest = hashlib.sha256(place.source.read_bytes()).hexdigest()
    assert [json.loads(each) for each in others] == [{"inputs": {"input": [digest], "joined": []}, "public_randomness": None}]
    # Nothing of the secrets, nor of the input, is in the document.
    text = place.target.read_text(encoding="utf-8")
    assert not any(secret.hex() in text for secret in (key, blinder))
    assert digest not in text
    assert key != blinder


def shown(text: str) -> str:
    """The words of a page or of a document, without markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text.replace("**", ""))).split())


@pytest.mark.source_tree
@pytest.mark.parametrize("randomness", [None, RANDOM.hex()], ids=["no deposit", "a deposit"])
def test_the_page_shows_the_commitment_and_what_it_means(place, randomness):
    pytest.importorskip("jinja2")
    small_job(place)
    if randomness is not None:
        assert place.commit("--commit-only").code == 0
    more = [] if randomness is None else ["--public-randomness", randomness]
    assert place.commit(*more, "--report", place.folder / "report").code == 0
    (page,) = (place.folder / "report").glob("*.html")
    text, said = shown(page.read_text(encoding="utf-8")), place.document["commitment"]
    for each in (said["hmac_sha256"], said["code"]["sha256"], randomness or ""):
        assert each in text
    assert ("public randomness" in text) == (randomness is not None)
    assert MATCH in text
    assert NOT_TRIED in text
    documented = shown((PYPROJECT.parent / "docs" / "verify.md").read_text(encoding="utf-8"))
    assert MATCH in documented
    assert NOT_TRIED in documented
    assert "--overwrite" not in text
    # The page of a release that is not committed to has none of it.
    place.target.unlink()
    for path in (place.folder / "report").iterdir():
        path.unlink()
    assert place.release("--report", place.folder / "report").code == 0
    assert "commitment" not in shown(page.read_text(encoding="utf-8")).lower()


@pytest.mark.parametrize("ledger", [False, True])
def test_a_committed_release_never_offers_overwrite(place, ledger):
    """It refuses it: a run has one key."""
    small_job(place, ledger=place.folder / "budget.ledger" if ledger else None)
    Ledger.create(place.folder / "budget.ledger", epsilon=1e6, delta=0.01)
    done, stored = place.commit(), place.target.read_bytes()
    assert done.code == 0
    assert place.commit("--overwrite").code == 2
    again = place.commit()
    assert again.code == (0 if ledger else 2)
    assert place.target.read_bytes() == stored
    place.target.write_text("{}")
    changed = place.commit()
    assert changed.code == 2
    for each in (done, again, changed):
        assert "name another output.path and another key file" in each.err
        assert "--overwrite" not in each.err.replace("--overwrite is refused", "")


def test_the_seal(place):
    small_job(place)
    assert place.commit().code == 0
    document, (key, *_) = place.document, parts_of(place.key)
    seal = document["commitment"].pop("seal")
    under = derived(key, b"seal of a committed release", document["run"].encode())
    assert seal == hmac.new(under, json.dumps(document, sort_keys=True).encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize("randomness", [b"", RANDOM])
def test_the_noise_is_that_of_the_derived_key_and_not_of_the_key_itself(place, randomness):
    """Domain separation: what is committed to is never the key of a stream."""
    small_job(place, queries=EMPTY)
    if randomness:
        assert place.commit("--commit-only").code == 0
    assert place.commit(*(["--public-randomness", randomness.hex()] if randomness else [])).code == 0
    document, (key, *_) = place.document, parts_of(place.key)
    under = derived(key, b"noise of a committed release", document["run"].encode(), randomness)
    from support.releases import clinic, truth

    exact = np.array(truth("regions", clinic(120)))
    mechanism = DiscreteLaplace(1.0, sensitivity=2)
    assert document["queries"][0]["value"] == mechanism.release(exact, rng=KeyedRandom(under).at(0)).tolist()
    others = [
        key,
        derived(key, b"noise", document["run"].encode(), randomness),
        derived(key, b"noise of a committed release", b"", randomness),
    ]
    long = np.zeros(200, np.int64)
    for other in others:
        assert not np.array_equal(*(mechanism.release(long, rng=KeyedRandom(each).at(0)) for each in (under, other)))


def test_two_releases_have_nothing_in_common(place):
    small_job(place)
    found = []
    for name in ("a", "b"):
        place.key = place.folder / "keys" / name
        assert place.commit().code == 0
        found.append((place.document, parts_of(place.key)))
        place.target.unlink()
    (one, (key, blinder, *_)), (other, (key_2, blinder_2, *_)) = found
    assert len({key, blinder, key_2, blinder_2}) == 4
    assert one["commitment"]["hmac_sha256"] != other["commitment"]["hmac_sha256"]
    assert one["run"] == other["run"]  # without a ledger nothing knows the first one
    differing = [first["value"] != second["value"] for first, second in zip(one["queries"], other["queries"], strict=True)]
    assert sum(differing) > len(differing) // 2  # a whole number may come out the same twice


def test_threads_and_pieces_change_nothing(place):
    """As under a test key: the answers are those of the key, however the rows are cut."""
    every_job(place, "person", "listed")
    before = None
    for threads in (1, 3):
        if before is None:
            release(make_release_plan(load_release_job(place.job), commit=place.key), threads=threads)
            begun = place.key.read_bytes()
        else:
            place.target.unlink()
            place.key.write_bytes(begun)
            release(make_release_plan(load_release_job(place.job), commit=place.key), threads=threads, piece_rows=7)
        now = [query["value"] for query in place.document["queries"]]
        assert before in (None, now)
        before = now


@pytest.mark.source_tree
@pytest.mark.parametrize(
    ("unit", "way"), [("row", "private"), ("person", "private"), ("person of groups", "listed"), ("made by key", "one")]
)
@pytest.mark.long
def test_no_number_of_a_draw_is_used_twice(place, monkeypatch, unit, way):
    """A number that was given out is marked if it is given out again, and no kernel may read under a marked one."""
    from support.keystream import watched

    every_job(place, unit, way)
    seen, again, mark, at = set(), set(), 1 << 30, CommittedNoise.at

    def marked(self, nonce):
        repeated = nonce in seen
        (again if repeated else seen).add(nonce)
        return at(self, nonce ^ mark if repeated else nonce)

    monkeypatch.setattr(CommittedNoise, "at", marked)
    with watched() as keystream:
        keystream.clear()
        release(make_release_plan(load_release_job(place.job), commit=place.key), threads=1)
        found = keystream.requests()
    keys, counts = np.unique(found["key"], return_counts=True)
    own = found[found["key"] == keys[counts.argmax()]]
    nonces = set(own["nonce"].tolist())
    assert len(nonces) > 20
    assert nonces <= seen
    assert not nonces & {nonce ^ mark for nonce in again}
    assert again or unit == "made by key"  # as where bounds were found, whose number the answer leaves out


def test_a_plan_forgets_its_key(place):
    small_job(place)
    plan = make_release_plan(load_release_job(place.job), commit=place.key)
    assert repr(plan.commitment) == f"Commitment({plan.commitment.digest!r})"
    release(plan)
    with pytest.raises(ParameterError, match="has been wiped"):
        _ = plan.key
    with pytest.raises(ParameterError, match="has been wiped"):
        plan.commitment.seal_of(place.document)
    with pytest.raises(ParameterTypeError, match="not copied or pickled"):
        copy.copy(plan.commitment)
    with pytest.raises(ParameterError, match="has been wiped"), plan.commitment:
        pass


def test_documents_of_jobs_come_back_as_they_were():
    import datetime as dt
    import tomllib

    said = tomllib.loads(
        'a = 2013-01-31\nb = 2013-01-31T10:00:00\nc = 2013-01-31T10:00:00.5+02:00\nd = 10:00:00.25\ne = [1, 2.5, true, "x", {f = "toml"}]\n'
    )
    found = job_documents.as_json(said)
    assert job_documents.from_json(json.loads(json.dumps(found))) == said
    assert found["a"] == {"toml": "2013-01-31"}
    for wrong in (float("nan"), float("inf"), {1, 2}, b"x", dt.timedelta(1), {"toml": "x"}, np.float64(1.0).reshape(1)):
        with pytest.raises(JobError, match="which no job file can have"):
            job_documents.as_json({"query": [{"x": wrong}]})


def test_an_input_that_changes_while_it_is_noted(place, monkeypatch):
    small_job(place)
    digest_of_file = commitments.digest_of_file

    def touched(path):
        found = digest_of_file(path)
        os.utime(path, ns=(1, 1))
        return found

    monkeypatch.setattr(commitments, "digest_of_file", touched)
    done = place.commit()
    assert done.code == 4
    assert "changed while it was read" in done.err
    assert not place.target.exists()
