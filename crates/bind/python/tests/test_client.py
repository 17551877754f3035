"""The namespace, as Python programs use it."""

import errno
import os
import pickle
import socket
import stat
import threading
import time

import braid
import pytest


def test_names_are_made_found_moved_and_removed(client, place):
    client.makedirs(f"{place}/a/b")
    client.make_file(f"{place}/a/f")
    assert sorted(client.listdir(place + "/a")) == ["b", "f"]
    client.rename(f"{place}/a/f", f"{place}/a/g")
    client.symlink("g", f"{place}/a/l")
    assert client.readlink(f"{place}/a/l") == "g"
    assert (
        client.exists(f"{place}/a/f"),
        client.isfile(f"{place}/a/l"),
        client.isdir(f"{place}/a/b"),
    ) == (False, True, True)
    client.link(f"{place}/a/g", f"{place}/h")
    assert client.stat(f"{place}/h").st_nlink == 2
    client.exchange(f"{place}/h", f"{place}/a/b")
    assert client.isdir(f"{place}/h") and client.isfile(f"{place}/a/b")
    walked = {
        top: (sorted(directories), sorted(files)) for top, directories, files in client.walk(place)
    }
    assert walked == {
        place: (["a", "h"], []),
        f"{place}/a": ([], ["b", "g", "l"]),
        f"{place}/h": ([], []),
    }
    client.rmtree(f"{place}/a")
    assert client.listdir(place) == ["h"]


def test_attributes_have_the_names_of_os_stat(client, place):
    with client.open(f"{place}/f", "wb", permissions=0o640) as file:
        file.write(b"x" * 5000)
    client.chmod(f"{place}/f", 0o600)
    client.utime(f"{place}/f", (1_000_000_001, -1))
    found = client.stat(f"{place}/f")
    assert stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600
    assert (found.st_size, found.st_atime_ns, found.st_mtime_ns, found.kind) == (
        5000,
        1_000_000_001,
        -1,
        "file",
    )
    assert found.st_birthtime > 1_600_000_000
    client.symlink("f", f"{place}/l")
    assert (
        client.lstat(f"{place}/l").kind == "link"
        and client.stat(f"{place}/l").st_ino == found.st_ino
    )
    entry = {entry.name: entry for entry in client.scandir(place, attributes=True)}["f"]
    assert (entry.is_file(), entry.is_dir(), entry.inode(), entry.attributes.st_size) == (
        True,
        False,
        found.st_ino,
        5000,
    )


def test_errors_are_os_errors_of_their_own_kind_and_say_what_to_try(client, place):
    with pytest.raises(FileNotFoundError) as raised:
        client.open(f"{place}/none")
    error = raised.value
    assert error.errno == 2 and error.status == "NotFound" and error.path == f"{place}/none"
    assert "metadata server" in error.server and str(error).startswith(
        f"[Errno 2] open {place}/none: "
    )
    assert "; try: " in str(error) and error.hint in str(error)
    client.mkdir(f"{place}/d")
    for kind, call in [
        (FileExistsError, lambda: client.mkdir(f"{place}/d")),
        (IsADirectoryError, lambda: client.open(f"{place}/d", "rb")),
        (
            NotADirectoryError,
            lambda: (client.make_file(f"{place}/f"), client.listdir(f"{place}/f")),
        ),
        (OSError, lambda: client.rmdir(place)),
    ]:
        with pytest.raises(kind):
            call()


def test_a_listing_of_more_names_than_one_message_holds_is_whole(client, place):
    names = {f"{number:05}" for number in range(3000)}
    for name in names:
        client.make_file(f"{place}/{name}")
    assert sorted(client.listdir(place)) == sorted(names)


def test_names_that_are_no_utf_8_come_back_as_they_were_given(client, place):
    client.make_file(os.fsencode(place) + b"/\xff\xfe")
    (name,) = client.listdir(place)
    assert os.fsencode(name) == b"\xff\xfe"
    assert client.exists(f"{place}/{name}")


def test_layouts_are_chosen_and_shown(client, place):
    client.open(f"{place}/f", "wb", stripe_size=65536, iod_count=2, first_iod=1).close()
    layout = client.layout(f"{place}/f")
    assert (layout["distribution"], layout["stripe_size"], len(layout["iods"])) == (
        "simple-stripe",
        65536,
        2,
    )
    client.set_layout(place, distribution="single")
    client.open(f"{place}/g", "wb").close()
    assert client.layout(f"{place}/g")["distribution"] == "single"
    for path in ("f", "new"):
        with pytest.raises(
            OSError, match="99 I/O daemons: the cluster has 4; try: at most 4"
        ) as refused:
            client.open(f"{place}/{path}", "wb", iod_count=99)
        assert refused.value.errno == errno.EINVAL
        with pytest.raises(OSError, match="a stripe of 777 bytes; try: from 4096") as refused:
            client.open(f"{place}/{path}", "wb", stripe_size=777)
        assert refused.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="the cluster has 4"):
        client.set_layout(place, iod_count=5)
    assert not client.exists(f"{place}/new")
    with pytest.raises(ValueError, match="stripe_size, iod_count"):
        client.open(f"{place}/h", "wb", stripesize=1)


def test_extended_attributes_room_and_identity(client, place):
    client.setxattr(place, "user.a", b"1")
    assert client.getxattr(place, "user.a") == b"1" and client.listxattr(place) == ["user.a"]
    client.removexattr(place, "user.a")
    assert client.listxattr(place) == []
    assert client.room(place)["total"] > 0
    assert client.whoami()[0] == 0
    assert client.access(place, os.R_OK | os.W_OK) and not client.access(f"{place}/none", os.R_OK)


def test_the_umask_is_taken_from_what_is_made(config, place):
    with braid.connect(config=config, umask=0o077) as client:
        client.mkdir(f"{place}/d")
        client.open(f"{place}/f", "wb").close()
        assert stat.S_IMODE(client.stat(f"{place}/d").st_mode) == 0o700
        assert stat.S_IMODE(client.stat(f"{place}/f").st_mode) == 0o600


def test_other_threads_go_on_while_a_call_waits_for_a_server(config):
    key = config.parent / "keys/client.key"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:%d" % silent.getsockname()[1]
        outcome = []

        def connect():
            try:
                braid.connect(address, key=key, timeout=1)
            except OSError as error:
                outcome.append(error)

        waiting = threading.Thread(target=connect)
        waiting.start()
        turns = 0
        while waiting.is_alive():
            turns += 1
            time.sleep(0.001)
    assert address in str(outcome[0])
    # If the calls held the GIL, this thread would have run only once or twice.
    assert turns > 50


def test_everything_is_synced_by_one_call_also_what_was_closed(client, place):
    with client.open(f"{place}/f", "wb") as file:
        file.write(b"bytes")
    assert client.sync() is None
    assert client.open(f"{place}/f", "rb").read() == b"bytes"


def test_a_closed_client_says_so(config):
    client = braid.connect(config=config)
    client.close()
    client.close()
    assert client.closed
    with pytest.raises(ValueError, match="closed client"):
        client.stat("/")
    with pytest.raises(ValueError, match="closed client"):
        client.sync()
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(client)


def test_copying_within_the_file_system(client, place):
    data = os.urandom(3 << 20)
    with client.open(f"{place}/a", "wb") as file:
        file.write(data)
    assert client.copy(f"{place}/a", f"{place}/b") == len(data)
    with client.open(f"{place}/b", "rb") as file:
        assert file.read() == data
    with pytest.raises(OSError, match="same file"):
        client.copy(f"{place}/a", f"{place}/a")
    assert client.stat(f"{place}/a").st_size == len(data)
