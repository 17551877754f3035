"""Collective calls: tasks as threads, as processes, and through groups of the program."""

import errno
import io
import os
import random
import secrets
import socket
import subprocess
import sys
import threading

import braid
import pytest
from braid import Group

TASKS, BLOCK, BLOCKS = 4, 4096, 64
DATA = random.Random(8).randbytes(TASKS * BLOCK * BLOCKS)


def part(rank: int) -> bytes:
    return b"".join(DATA[at : at + BLOCK] for at in range(rank * BLOCK, len(DATA), TASKS * BLOCK))


def together(groups, task) -> list:
    """The result or exception of each task, in the order of ranks."""
    outcomes = [None] * len(groups)

    def run(rank, group):
        try:
            outcomes[rank] = task(rank, group)
        except Exception as error:
            outcomes[rank] = error

    threads = [threading.Thread(target=run, args=one) for one in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


class Barrier:
    """A group of the program: only the required attributes."""

    size = TASKS

    def __init__(self, rank, barrier, given):
        self.rank, self.barrier, self.given = rank, barrier, given

    def all_gather(self, mine, timeout):
        self.given[self.rank] = mine
        self.barrier.wait(timeout)
        all_of_them = list(self.given)
        self.barrier.wait(timeout)
        return all_of_them

    @classmethod
    def tasks(cls):
        barrier, given = threading.Barrier(cls.size), [None] * cls.size
        return [cls(rank, barrier, given) for rank in range(cls.size)]


class Communicator(Barrier):
    """The part of an mpi4py communicator that is used."""

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def allgather(self, mine):
        return self.all_gather(mine, 30)


@pytest.mark.parametrize(
    "groups", [lambda: Group.threads(TASKS), Barrier.tasks, Communicator.tasks]
)
@pytest.mark.parametrize("mode", ["auto", "server", "independent"])
def test_tasks_write_and_read_their_parts_together(client, place, groups, mode):
    client.make_file(f"{place}/f")
    client.set_layout(f"{place}/f", stripe_size=65536)

    def task(rank, group):
        with client.open(f"{place}/f", "r+b", 0) as file:
            mine = file.view(offset=rank * BLOCK, group=BLOCK, stride=TASKS * BLOCK)
            written = mine.write_all_at(group, part(rank), 0, mode=mode)
            memory = bytearray(BLOCK)
            assert mine.readinto_all_at(group, memory, BLOCK, mode=mode) == BLOCK
            assert memory == part(rank)[BLOCK : 2 * BLOCK]
            # Past the end there are no bytes, as in independent reads.
            return written, mine.read_all_at(group, len(part(rank)) + 10, 0, mode=mode)

    assert together(groups(), task) == [(len(part(rank)), part(rank)) for rank in range(TASKS)]
    with client.open(f"{place}/f", "rb") as file:
        assert file.read() == DATA


def test_overlaps_have_a_winner_or_are_refused_for_all(client, place):
    client.make_file(f"{place}/f")

    def task(overlap):
        def write(rank, group):
            with client.open(f"{place}/f", "r+b", 0) as file:
                return file.write_all_at(group, bytes([rank + 1]) * 100, rank * 50, overlap=overlap)

        return write

    refused = together(Group.threads(3), task("refuse"))
    assert len({str(error) for error in refused}) == 1 and all(
        isinstance(error, OSError) for error in refused
    ), refused
    assert client.stat(f"{place}/f").st_size == 0
    assert together(Group.threads(3), task("highest-rank")) == [100, 100, 100]
    with client.open(f"{place}/f", "rb") as file:
        assert file.read() == b"\1" * 50 + b"\2" * 50 + b"\3" * 100


def test_a_lost_task_and_a_group_that_fails_are_told_to_all(client, place):
    client.make_file(f"{place}/f")

    def task(rank, group):
        if rank == 1:
            group.leave()
            raise RuntimeError("went away")
        with client.open(f"{place}/f", "r+b", 0) as file:
            return file.write_all_at(group, b"x", rank)

    outcomes = together(Group.threads(3), task)
    assert all(
        isinstance(outcomes[rank], OSError) and "task 1 is lost" in str(outcomes[rank])
        for rank in (0, 2)
    ), outcomes

    class Broken(Barrier):
        size = 1

        def all_gather(self, mine, timeout):
            raise RuntimeError("no network")

    with client.open(f"{place}/f", "r+b", 0) as file:
        with pytest.raises(OSError, match="no network"):
            file.write_all_at(Broken(0, None, None), b"x", 0)
        with pytest.raises(TypeError, match="not a group; try: braid.Group"):
            file.read_all_at(17, 1, 0)


def _closed(file, group):
    file.close()
    file.read_all_at(group, 1, 0)


WRONG = {
    "a closed file": ("r+b", _closed, ValueError, "closed file"),
    "a file that is only read": (
        "rb",
        lambda f, g: f.write_all_at(g, b"x", 0),
        io.UnsupportedOperation,
        "not open to write",
    ),
    "a file that is only written": (
        "wb",
        lambda f, g: f.read_all_at(g, 1, 0),
        io.UnsupportedOperation,
        "not open to read",
    ),
    "the same, into memory": (
        "wb",
        lambda f, g: f.readinto_all_at(g, bytearray(1), 0),
        io.UnsupportedOperation,
        "not open to read",
    ),
    "memory that is read-only": (
        "rb",
        lambda f, g: f.readinto_all_at(g, b"x", 0),
        BufferError,
        "read-only",
    ),
    "memory in pieces": (
        "rb",
        lambda f, g: f.readinto_all_at(g, memoryview(bytearray(9))[::2], 0),
        BufferError,
        "not contiguous",
    ),
    "data in pieces": (
        "r+b",
        lambda f, g: f.write_all_at(g, memoryview(b"123456789")[::2], 0),
        BufferError,
        "not contiguous",
    ),
    "data that is text": (
        "r+b",
        lambda f, g: f.write_all_at(g, "text", 0),
        TypeError,
        "bytes-like|buffer",
    ),
    "no such mode": (
        "r+b",
        lambda f, g: f.write_all_at(g, b"x", 0, mode="fast"),
        ValueError,
        "the mode is unknown",
    ),
    "a mode that is none": (
        "rb",
        lambda f, g: f.read_all_at(g, 1, 0, mode=7),
        TypeError,
        "(?i)str",
    ),
    "no such overlap": (
        "r+b",
        lambda f, g: f.write_all_at(g, b"x", 0, overlap="lowest"),
        ValueError,
        "the overlap is unknown",
    ),
    "a position before the file": (
        "r+b",
        lambda f, g: f.write_all_at(g, b"x", -1),
        OverflowError,
        "negative",
    ),
    "a position that is none": ("rb", lambda f, g: f.read_all_at(g, 1, "0"), TypeError, "integer"),
    "a size below 0": ("rb", lambda f, g: f.read_all_at(g, -1, 0), OverflowError, "negative"),
    "a size that no memory has": (
        "rb",
        lambda f, g: f.read_all_at(g, 1 << 62, 0),
        MemoryError,
        "^$",
    ),
}


@pytest.mark.parametrize("groups", [lambda: Group.threads(TASKS), Communicator.tasks])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_task_that_cannot_make_the_call_is_heard_of_and_not_waited_for(
    client, place, groups, wrong
):
    client.make_file(f"{place}/f")
    mode, call, raised, why = WRONG[wrong]

    def task(rank, group):
        with client.open(f"{place}/f", mode if rank == 1 else "r+b", 0) as file:
            try:
                call(file, group) if rank == 1 else file.write_all_at(group, b"x", rank)
                failure = None
            except Exception as error:
                failure = error
        # The tasks are still in step: the next call works.
        with client.open(f"{place}/f", "r+b", 0) as file:
            return failure, file.read_all_at(group, 1, 0)

    failures, after = zip(*together(groups(), task), strict=True)
    assert after == (b"",) * TASKS, "nothing was written"
    with pytest.raises(raised, match=why):
        raise failures[1]
    for rank in (0, 2, 3):
        failure = failures[rank]
        assert isinstance(failure, OSError) and failure.errno == errno.EINVAL, failure
        heard = str(failures[1]) or raised.__name__
        assert f"task 1: {heard.partition('; try: ')[0]}; try: " in str(failure), failure


def test_a_task_without_a_file_refuses_for_all(client, place):
    client.make_file(f"{place}/f")

    def task(rank, group):
        if rank == 2:
            return group.refuse_all("there is no file here")
        with client.open(f"{place}/f", "r+b", 0) as file:
            return file.write_all_at(group, b"x", rank)

    outcomes = together(Group.threads(3), task)
    assert outcomes[2] is None
    assert all("task 2: there is no file here; try: " in str(outcomes[rank]) for rank in (0, 1)), (
        outcomes
    )
    group = Group.threads(1)[0]
    group.leave()
    with pytest.raises(ValueError, match="closed group"):
        group.refuse_all("gone")


PROGRAM = """
import sys, braid
from braid import Group
config, path, address, rank, size, secret = sys.argv[1:]
rank, size = int(rank), int(size)
group = Group.tcp(address, rank, size, bytes.fromhex(secret))
assert (group.rank, group.size) == (rank, size)
assert group.all_gather(bytes([rank])) == [bytes([one]) for one in range(size)]
with braid.connect(config=config) as client, client.open(path, "rb", 0) as file:
    mine = file.view(offset=rank * 4096, group=4096, stride=size * 4096)
    sys.stdout.buffer.write(mine.read_all_at(group, 1 << 20, 0))
"""


def test_tasks_that_are_processes_find_each_other_over_tcp(config, client, place):
    with client.open(f"{place}/f", "wb", stripe_size=65536) as file:
        file.write(DATA)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = "127.0.0.1:%d" % probe.getsockname()[1]
    words = [sys.executable, "-c", PROGRAM, str(config), f"{place}/f", address]
    secret = secrets.token_hex(32)
    tasks = [
        subprocess.Popen(
            [*words, str(rank), str(TASKS), secret], stdout=subprocess.PIPE, env=os.environ
        )
        for rank in range(TASKS)
    ]
    for rank, task in enumerate(tasks):
        assert task.communicate(timeout=60)[0] == part(rank) and task.returncode == 0
    with pytest.raises(ValueError, match="32 bytes; try: secrets.token_bytes"):
        Group.tcp(address, 0, 1, b"short")
    assert [repr(task) for task in Group.threads(2)] == [
        "<braid.Group task 0 of 2>",
        "<braid.Group task 1 of 2>",
    ]
    assert braid.Group is Group
