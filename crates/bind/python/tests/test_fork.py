"""After ``fork`` a child gets a clear error and makes a client of its own."""

import os
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor

import braid


def in_child(judge) -> str:
    """The result of `judge` in a child of this process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = judge()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return said


def test_a_child_is_refused_with_a_clear_error_and_its_parent_goes_on(client, config, place):
    with client.open(f"{place}/f", "w+b", 0) as file:
        file.write(b"parent")
        for said in (
            in_child(lambda: file.read_at(6, 0).decode()),
            in_child(lambda: str(client.stat(place))),
        ):
            assert "made before fork" in said and "try: make a new client after fork" in said
        own = in_child(
            lambda: braid.connect(config=config).open(f"{place}/f", "rb").read().decode()
        )
        assert own == "parent"
        # Closing in a child closes nothing of its parent.
        assert in_child(lambda: (file.close(), client.close(), "closed")[-1]) == "closed"
        assert file.read_at(6, 0) == b"parent"


def test_a_child_that_ends_takes_nothing_from_its_parents_group():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = "127.0.0.1:%d" % probe.getsockname()[1]
    secret = secrets.token_bytes(32)
    with ThreadPoolExecutor(2) as tasks:
        groups = list(tasks.map(lambda rank: braid.Group.tcp(address, rank, 2, secret), range(2)))
        for group in groups:
            for call in (lambda: group.all_gather(b""), lambda: group.refuse_all("no")):
                assert "made before fork" in in_child(lambda: str(call()))
            assert in_child(lambda: (group.leave(), "left")[-1]) == "left"
        assert (
            list(tasks.map(lambda group: group.all_gather(bytes([group.rank])), groups))
            == [[b"\0", b"\1"]] * 2
        )


def test_a_file_system_of_fsspec_connects_again_in_a_child(fs, place):
    fs.pipe_file(f"{place}/f", b"both")
    assert in_child(lambda: fs.cat_file(f"{place}/f").decode()) == "both"
    ranges = in_child(
        lambda: b"".join(fs.cat_ranges([f"{place}/f", f"{place}/f"], [0, 2], [1, 4])).decode()
    )
    assert ranges == "bth"
    assert fs.cat_file(f"{place}/f") == b"both"
