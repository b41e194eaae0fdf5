"""The key of a job: made once, not sent by accident, wiped; and what is derived from it."""

from __future__ import annotations

import copy
import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.errors import EntropyError, ParameterError, ParameterTypeError
from dpcore.rng import CarriedKey, JobKey, framed
from dpcore.testing import KeyedJobKey

KEY = bytes(range(32))
PARTS = st.lists(st.binary(max_size=40), max_size=6)


def written(parts) -> bytes:
    return b"".join(bytes(piece) for piece in framed(parts))


def read_back(text: bytes) -> list[bytes]:
    """The slow twin of `framed`, from the front: what it returns is all that the bytes can mean."""
    parts, place, end = [], 0, len(text) - 8
    while place < end:
        length = int.from_bytes(text[place : place + 8], "little")
        parts.append(text[place + 8 : place + 8 + length])
        place += 8 + length
    assert place == end
    assert int.from_bytes(text[end:], "little") == len(parts)
    return parts


@given(PARTS)
def test_what_is_framed_can_be_read_back(parts):
    assert read_back(written(parts)) == parts


def test_parts_that_are_only_joined_are_found_to_collide():
    """Without lengths two different sequences have the same bytes, which is why they are there."""
    one, other = [b"ab", b"c"], [b"a", b"bc"]
    assert b"".join(one) == b"".join(other)
    assert written(one) != written(other)


def test_arrays_and_nothing_are_framed_as_their_bytes():
    numbers = np.arange(3, dtype="<i8")
    assert written([memoryview(numbers), np.empty(0, np.int64).data]) == written([numbers.tobytes(), b""])


def test_the_derived_key_is_blake2b_of_the_frame():
    wanted = hashlib.blake2b(written([b"noise", b"one", b"two"]), key=KEY, digest_size=32, person=b"dpcore-job-key-1").digest()
    assert bytes(KeyedJobKey(KEY).derived("noise", [b"one", b"two"])) == wanted


def test_equal_pieces_share_a_key_and_others_do_not():
    key = KeyedJobKey(KEY)
    found = {
        bytes(made.derived(purpose, parts))
        for made in (key, KeyedJobKey(bytes(32)))
        for purpose in ("noise", "shuffle", "priority")
        for parts in ([b"a"], [b"b"], [b"a", b""], [])
    }
    assert len(found) == 2 * 3 * 4
    assert key.derived("noise", [b"a"]) == key.carried().derived("noise", [b"a"])


def test_every_job_has_a_key_of_its_own():
    with JobKey() as one, JobKey() as other:
        assert one.secure
        assert one.derived("noise", []) != other.derived("noise", [])
    assert not KeyedJobKey(KEY).secure


def test_a_job_key_has_no_copy_and_no_pickle():
    with JobKey() as key:
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(ParameterTypeError, match="not copied or pickled"):
                attempt(key)


def test_no_text_shows_the_key():
    for shown in (KeyedJobKey(KEY), KeyedJobKey(KEY).carried()):
        for text in (repr(shown), str(shown), f"{shown}"):
            assert KEY.hex() not in text
            assert repr(KEY)[2:-1] not in text
            assert "<key>" in text


def test_a_wiped_key_derives_nothing():
    key = JobKey()
    key.wipe()
    assert repr(key) == "JobKey(<wiped>)"
    for attempt in (key.carried, lambda: key.derived("noise", []), lambda: key.secure):
        with pytest.raises(ParameterError, match="has been wiped"):
            attempt()


def test_the_form_that_is_sent_derives_the_same_keys():
    for key in (JobKey(), KeyedJobKey(KEY)):
        sent = pickle.loads(pickle.dumps(key.carried()))
        assert sent.secure == key.secure
        assert sent.derived("noise", [b"x"]) == key.derived("noise", [b"x"])


@pytest.mark.parametrize(("key", "error"), [("text", ParameterTypeError), (bytes(31), ParameterError), (None, ParameterTypeError)])
def test_other_keys_are_refused(key, error):
    with pytest.raises(error, match="key must"):
        KeyedJobKey(key)
    with pytest.raises(error, match="key must"):
        CarriedKey(key, secure=True)


def test_without_entropy_there_is_no_key(monkeypatch):
    def fail(_):
        raise OSError("no device")

    monkeypatch.setattr("os.urandom", fail)
    with pytest.raises(EntropyError):
        JobKey()
