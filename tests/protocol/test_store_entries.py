"""What comes out of torch's store is believed only as far as ours can have put it there."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unilab_metrics.transport.store_entries import (
    MAX_VALUE_BYTES,
    StoredBus,
    StoredKey,
    StoreEntryError,
    StoreNames,
    decode_bus,
    decode_key,
    encode,
    read_answer,
    word,
)

PUBLIC = "x" * 40
BUS = StoredBus(
    run_dir="/home/me/run",
    journal="0a" * 16,
    pid=4711,
    started_unix_ns=5,
    boot_id="b",
    host="node-0",
    tcp_ingest="tcp://10.0.0.5:7000",
    server_key=PUBLIC,
)
KEY = StoredKey(rank=3, role="learner", host="node-1", public=PUBLIC)


def test_entries_come_back_as_they_were():
    assert decode_bus(encode(BUS).encode()) == BUS
    assert decode_key(encode(KEY).encode(), 4) == KEY


@pytest.mark.parametrize(
    "changes",
    [
        {"tcp_ingest": "ipc:///tmp/x"},
        {"tcp_ingest": ""},
        {"tcp_ingest": "tcp://*:7000"},
        {"tcp_ingest": "tcp://10.0.0.5"},
        {"tcp_ingest": "tcp://10.0.0.5:7000\n"},
        {"server_key": "x"},
        {"journal": "0A" * 16},
        {"run_dir": "run"},
        {"run_dir": "/run\0"},
        {"run_dir": "/" + "x" * MAX_VALUE_BYTES},
        {"version": 2},
        {"version": "1"},
        {"pid": 1.5},
    ],
)
def test_a_bus_that_cannot_be_is_refused(changes: dict[str, object]):
    data = msgspec.json.encode({**msgspec.to_builtins(BUS), **changes})
    with pytest.raises(StoreEntryError):
        decode_bus(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"rank": 0},
        {"rank": 4},
        {"rank": -1},
        {"rank": True},
        {"public": "x" * 39},
        {"public": "x" * 39 + "\n"},
        {"host": "a b"},
        {"role": "learner\nwatch"},
        {"role": ""},
        {"version": 0},
    ],
)
def test_a_key_that_cannot_be_is_refused(changes: dict[str, object]):
    data = msgspec.json.encode({**msgspec.to_builtins(KEY), **changes})
    with pytest.raises(StoreEntryError):
        decode_key(data, 4)


@given(st.binary(max_size=200) | st.builds(lambda n: b"[" * n, st.integers(0, 5000)))
def test_garbage_is_one_error(data: bytes):
    with pytest.raises(StoreEntryError):
        decode_bus(data)
    with pytest.raises(StoreEntryError):
        decode_key(data, 4)
    if data != b"ok":
        assert read_answer(data).isprintable()


@given(st.text())
def test_any_host_name_becomes_a_word(text: str):
    named = msgspec.structs.replace(KEY, host=word(text), role=word(text))
    assert decode_key(encode(named).encode(), 4) == named


def test_two_runs_in_one_store_do_not_meet():
    names = [
        StoreNames(environ, opened).bus
        for opened in (0, 1)
        for environ in ({}, {"TORCHELASTIC_RUN_ID": "a"}, {"SLURM_JOB_ID": "7"})
    ]
    assert len(set(names)) == len(names)
    # A node calls itself, its ranks and rank 0's address as it likes.
    own = {"RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "SLURM_NODEID": "1"}
    assert StoreNames(own, 0).bus == StoreNames({}, 0).bus


def test_names_are_what_the_document_says():
    names = StoreNames({}, 0)
    prefix = "unilab-metrics/1/50c2535817d6425f815f/"
    assert [names.bus, names.asked, names.key(7), names.answer(7)] == [
        prefix + name for name in ("bus", "asked", "key/7", "answer/7")
    ]


def test_a_secret_key_has_no_place_in_an_entry():
    fields = {*StoredBus.__struct_fields__, *StoredKey.__struct_fields__}
    assert "secret" not in fields
    with pytest.raises(StoreEntryError):
        decode_bus(encode(KEY).encode())
