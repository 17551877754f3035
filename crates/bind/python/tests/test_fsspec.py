"""``braid://`` of fsspec: its abstract test suite, and what that does not cover."""

import asyncio
import datetime
import os
import pickle
import random
import time

import fsspec
import fsspec.tests.abstract as abstract
import pytest
from braid._client import LAYOUT_WORDS
from braid.fs import BraidFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, config):
        return fsspec.filesystem("braid", config=str(config))

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self, place):
        return place


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


def test_it_is_found_by_its_protocol_and_options_travel(config, place):
    with fsspec.open(f"braid://{place}/d/f", "w", config=str(config)) as file:
        file.write("text")
    fs, path = fsspec.url_to_fs(f"braid://{place}/d/f", config=str(config))
    assert (path, fs.unstrip_protocol(path)) == (f"{place}/d/f", f"braid://{place}/d/f")
    assert fs.cat_file(f"braid:{place}/d/f") == b"text"
    assert fs.client is fsspec.filesystem("braid", config=str(config)).client, (
        "instances are shared"
    )


def test_a_server_in_the_url_is_the_one_that_is_asked(config, place):
    (address,) = [
        line.split("=")[1].strip(" []'\"")
        for line in config.read_text().splitlines()
        if line.startswith("mds")
    ][:1]
    key = str(config.parent / "keys/client.key")
    fs, path = fsspec.url_to_fs(f"braid://{address}{place}", key=key)
    assert fs.storage_options["mds"] == address and fs.isdir(path)
    assert fs.unstrip_protocol(path) == f"braid://{address}{place}"
    again = fsspec.url_to_fs(fs.unstrip_protocol(path), key=key)
    assert again == (fs, path)
    with fs.open(f"{place}/f", "wb") as file:
        assert file.full_name == f"braid://{address}{place}/f"


def test_without_a_port_it_is_a_path(config):
    """Libraries that treat URLs as paths collapse slashes; MPI programs write one slash."""
    strip = BraidFileSystem._strip_protocol
    for url in (
        "braid:///lib/a.csv",
        "braid://lib/a.csv",
        "braid:/lib/a.csv",
        "braid:lib/a.csv",
        "/lib/a.csv",
    ):
        assert strip(url) == "/lib/a.csv", url
        assert BraidFileSystem._get_kwargs_from_urls(url) == {}
    for servers in ("h:7700", "10.0.0.1:7700", "[fe80::1]:7700", "a:1,[::1]:2,b.c:3"):
        assert strip(f"braid://{servers}/lib/a:1.csv") == "/lib/a:1.csv"
        assert BraidFileSystem._get_kwargs_from_urls(f"braid://{servers}/lib") == {"mds": servers}
        made = BraidFileSystem(servers.split(","), skip_instance_cache=True)
        assert made.unstrip_protocol("/lib") == f"braid://{servers}/lib"
    assert (
        strip("braid://lib") == "/lib"
        and strip("braid://a:b/c") == "/a:b/c"
        and strip("braid://") == "/"
    )
    fs, path = fsspec.url_to_fs("braid://lib/a.csv", config=str(config))
    assert path == "/lib/a.csv" and fs.unstrip_protocol(path) == "braid:///lib/a.csv"


def test_ranges_of_many_files_come_in_the_order_asked_for(fs, place):
    chance = random.Random(3)
    contents = {f"{place}/{name}": chance.randbytes(50_000) for name in "abcd"}
    fs.pipe(contents)
    asked = [
        (chance.choice(list(contents)), chance.randrange(60_000), chance.randrange(5000))
        for _ in range(2000)
    ]
    paths, starts, ends = (
        [path for path, _, _ in asked],
        [start for _, start, _ in asked],
        [s + n for _, s, n in asked],
    )
    assert fs.cat_ranges(paths, starts, ends) == [
        contents[path][start : start + size] for path, start, size in asked
    ]
    path = f"{place}/a"
    slices = [
        (None, None),
        (None, 10),
        (-10, None),
        (-20, -5),
        (100, 50),
        (49_990, 60_000),
        (5, -1),
    ]
    found = fs.cat_ranges(
        [path] * len(slices), [start for start, _ in slices], [end for _, end in slices]
    )
    assert found == [contents[path][start:end] for start, end in slices]
    assert [fs.cat_file(path, start, end) for start, end in slices] == found
    far = [
        (2**70, 2**71),
        (-(2**70), 7),
        (0, 2**70),
        (49_999, 2**62),
        (2**62, 2**63),
        (-3, 2**40),
        (0, -(2**70)),
    ]
    found = fs.cat_ranges([path] * len(far), [start for start, _ in far], [end for _, end in far])
    assert found == [contents[path][start:end] for start, end in far], (
        "no memory is taken for what no file has"
    )
    assert fs.cat_ranges([], [], []) == [] and fs.cat_ranges(
        [path, f"braid://{path}/"], [1, 2], [3, 4]
    ) == [contents[path][1:3], contents[path][2:4]]
    with pytest.raises(TypeError):
        fs.cat_file(path, 0.5, 2)
    assert fs.cat_ranges([path, f"{place}/b"], 0, 3) == [
        contents[path][:3],
        contents[f"{place}/b"][:3],
    ]
    found = fs.cat_ranges([path, f"{place}/none"], 0, 1)
    assert found[0] == contents[path][:1] and isinstance(found[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([path, f"{place}/none"], 0, 1, on_error="raise")
    assert fs.cat(list(contents)) == contents and fs.cat(path) == contents[path]
    assert set(fs.cat([path, f"{place}/none"], on_error="omit")) == {path}


def test_what_is_there_is_told_as_posix_tells_it(fs, place):
    fs.pipe_file(f"{place}/d/f", b"12345")
    fs.symlink(f"{place}/d/f", f"{place}/l")
    fs.symlink(f"{place}/nothing", f"{place}/dangling")
    info = fs.info(f"{place}/d/f")
    assert (info["name"], info["size"], info["type"], info["islink"]) == (
        f"{place}/d/f",
        5,
        "file",
        False,
    )
    assert (
        fs.info(f"braid://{place}/l/")["destination"] == f"{place}/d/f"
        and fs.info(f"{place}/l")["size"] == 5
    )
    assert fs.ls(place, detail=False) == [f"{place}/{name}" for name in ("d", "dangling", "l")]
    assert [(one["name"][-1], one["type"]) for one in fs.ls(place)] == [
        ("d", "directory"),
        ("g", "other"),
        ("l", "file"),
    ]
    assert fs.ls(f"{place}/d/f", detail=False) == [f"{place}/d/f"] and fs.find(place) == [
        f"{place}/d/f",
        f"{place}/dangling",
        f"{place}/l",
    ]
    assert (
        fs.glob(f"{place}/*/f") == [f"{place}/d/f"]
        and fs.isdir(f"{place}/d")
        and fs.isfile(f"{place}/l")
    )
    assert (
        fs.exists(place) and not fs.exists(f"{place}/dangling") and fs.lexists(f"{place}/dangling")
    )
    assert not fs.exists(f"{place}/d/f/below")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{place}/nothing")
    now = datetime.datetime.now(datetime.UTC)
    assert abs(fs.created(f"{place}/d/f") - now) < datetime.timedelta(minutes=5)
    assert abs(fs.modified(f"{place}/d/f") - now) < datetime.timedelta(minutes=5)
    before = settled_key(fs, f"{place}/d/f")
    assert fs.checksum(f"{place}/d/f") == int(before, 16)
    fs.pipe_file(f"{place}/d/f", b"54321")
    assert fs.ukey(f"{place}/d/f") != before


def settled_key(fs, path):
    """Until the servers have recorded the size of a new file, each query may return another key."""
    for _ in range(600):
        key = fs.ukey(path)
        if key == fs.ukey(path):
            return key
        time.sleep(0.05)
    raise AssertionError("its key changes with every look")


def test_files_open_in_every_mode_and_know_what_fsspec_wants_to_know(fs, place):
    path = f"{place}/f"
    with fs.open(path, "wb", stripe_size=65536) as file:
        file.write(b"a" * 100_000)
        assert file.size == 100_000
    assert fs.client.layout(path)["stripe_size"] == 65536
    with fs.open(path, "ab") as file:
        file.write(b"b")
    with fs.open(path, "r+b") as file:
        file.seek(1)
        file.write(b"c")
    with fs.open(path, "rb", block_size=4096, cache_type="readahead") as file:
        assert (file.size, file.path, file.full_name) == (100_001, path, f"braid://{path}")
        assert file.read(3) == b"aca" and file.info()["size"] == 100_001
        again = pickle.loads(pickle.dumps(file))
        assert again.tell() == 3 and again.read() == b"a" * 99_997 + b"b"
        again.close()
    with fs.open(f"{place}/t.gz", "wt", compression="infer") as file:
        file.write("text")
    with fs.open(f"{place}/t.gz", "rt", compression="infer") as file:
        assert file.read() == "text"
    assert fs.cat_file(f"{place}/t.gz")[:2] == b"\x1f\x8b"


def test_what_a_transaction_writes_appears_at_its_end_or_never(fs, place):
    with fs.transaction:
        for name in "ab":
            with fs.open(f"{place}/{name}", "wb") as file:
                file.write(name.encode())
        assert not fs.exists(f"{place}/a")
    assert fs.cat([f"{place}/a", f"{place}/b"]) == {f"{place}/a": b"a", f"{place}/b": b"b"}
    with pytest.raises(RuntimeError, match="meanwhile"), fs.transaction:
        fs.open(f"{place}/c", "wb").close()
        raise RuntimeError("meanwhile")
    assert fs.ls(place, detail=False) == [f"{place}/a", f"{place}/b"]


def test_whole_files_of_a_transaction_appear_at_its_end_or_never(fs, place, tmp_path):
    (tmp_path / "local").write_bytes(b"put")
    fs.pipe_file(f"{place}/old", b"before")
    names = [f"{place}/{name}" for name in ("a", "b", "c", "old", "put")]

    def write():
        fs.pipe_file(names[0], b"a", stripe_size=65536)
        fs.pipe({names[1]: b"b", names[2]: b"c"})
        fs.pipe_file(names[3], b"after")
        fs.put_file(str(tmp_path / "local"), names[4])

    with pytest.raises(RuntimeError, match="meanwhile"), fs.transaction:
        write()
        raise RuntimeError("meanwhile")
    assert fs.find(place) == [f"{place}/old"] and fs.cat_file(f"{place}/old") == b"before"
    with fs.transaction:
        write()
        assert (
            fs.glob(f"{place}/[a-z]*") == [f"{place}/old"]
            and fs.cat_file(f"{place}/old") == b"before"
        )
    assert fs.cat(names) == dict(zip(names, (b"a", b"b", b"c", b"after", b"put"), strict=True))
    assert fs.find(place) == names and fs.client.layout(names[0])["stripe_size"] == 65536
    with fs.transaction:
        with pytest.raises(TypeError):
            fs.pipe_file(f"{place}/half", object())
        fs.pipe_file(f"{place}/whole", b"")
    assert fs.find(place) == [*names, f"{place}/whole"], (
        "what failed leaves nothing, and the rest appears"
    )
    with pytest.raises(FileExistsError), fs.transaction:
        fs.pipe_file(names[0], b"x", mode="create")
    assert fs.cat_file(names[0]) == b"a" and len(fs.find(place)) == 6


def test_words_for_other_file_systems_are_taken_and_ours_are_checked(fs, client, place, tmp_path):
    others = {
        "version_id": "7",
        "max_concurrency": 4,
        "content_type": "text/plain",
        "default_cache": "readahead",
    }
    with fs.open(
        f"{place}/f", "wb", stripe_size=65536, cache_type="none", size=None, **others
    ) as file:
        file.write(b"1")
    with fs.open(f"{place}/f", **others) as file:
        assert file.read() == b"1"
    fs.pipe_file(f"{place}/g", b"2", stripe_size=65536, **others)
    fs.pipe({f"{place}/h": b"3"}, **others)
    (tmp_path / "i").write_bytes(b"4")
    fs.put_file(str(tmp_path / "i"), f"{place}/i", stripe_size=65536, **others)
    assert b"".join(fs.cat([f"{place}/{name}" for name in "fghi"]).values()) == b"1234"
    assert [client.layout(f"{place}/{name}")["stripe_size"] for name in "fgi"] == [65536] * 3
    for word in LAYOUT_WORDS:
        client.open(
            f"{place}/f", "wb", 0, **{word: [] if word in ("strips", "labels") else None}
        ).close()
    with pytest.raises(
        ValueError, match="'stripe_sise' is an unknown keyword; try: "
    ) as refused:
        client.open(f"{place}/f", "wb", 0, stripe_sise=65536)
    assert set(str(refused.value).partition("try: ")[2].split(", ")) == LAYOUT_WORDS


@pytest.mark.parametrize("protocol", ["blockcache", "cached", "filecache", "simplecache"])
def test_it_is_read_through_the_caches_of_fsspec(fs, place, config, tmp_path, protocol):
    data = random.Random(5).randbytes(300_000)
    fs.pipe_file(f"{place}/f", data)
    options = {
        "braid": {"config": str(config)},
        protocol: {"cache_storage": str(tmp_path / "kept")},
    }
    for _ in range(2):
        with fsspec.open(f"{protocol}::braid://{place}/f", block_size=10_000, **options) as file:
            assert file.seek(250_000) == 250_000 and file.read(60_000) == data[250_000:]
            assert file.seek(-5, os.SEEK_END) == len(data) - 5 and file.read() == data[-5:]
            file.seek(9_995)
            assert file.read(10) == data[9_995:10_005] and file.tell() == 10_005
        assert file.closed
    kept = b"".join(path.read_bytes() for path in (tmp_path / "kept").iterdir())
    assert data[250_000:] in kept, "what was read once is on this host"


def test_open_files_have_what_fsspecs_own_have(fs, place):
    lines = [b"%05d\n" % line for line in range(10_000)]
    with fs.open(f"{place}/f", "wb", block_size=1000) as file:
        file.write(b"".join(lines))
        assert (file.blocksize, file.loc) == (1000, 60_000)
    with fs.open(f"{place}/f", block_size=100) as file:
        assert file.blocksize == 100 and file.details["size"] == 60_000 and file.cache is None
        assert file.readuntil() == lines[0] and file.loc == 6
        assert file.readuntil(b"00100\n0", blocks=7) == b"".join(lines[1:101]) + b"0"
        assert file.tell() == 607 and file.readuntil(b"none") == b"".join(lines)[607:]
        assert file.readuntil() == b"" and file.read_block(7, 10, b"\n") == b"".join(lines[2:3])
    assert fs.read_block(f"{place}/f", 7, 10, b"\n") == lines[2]


def test_finding_by_a_prefix(fs, place):
    names = ["a1", "a2/x", "a2/deep/y", "b/a1", "b/a2/z", "c"]
    fs.pipe({f"{place}/{name}": b"1" for name in names})

    def found(prefix, **options):
        return [name.removeprefix(f"{place}/") for name in fs.find(place, prefix=prefix, **options)]

    assert found("") == sorted(names)
    assert found("a") == ["a1", "a2/deep/y", "a2/x"] and found("a", maxdepth=1) == ["a1"]
    assert found("a", maxdepth=2) == ["a1", "a2/x"]
    assert found("a", withdirs=True) == ["a1", "a2", "a2/deep", "a2/deep/y", "a2/x"]
    assert (
        found("b/a") == ["b/a1", "b/a2/z"]
        and found("b/a", maxdepth=2) == ["b/a1"]
        and found("b/a", maxdepth=1) == []
    )
    assert found("b/") == ["b/a1", "b/a2/z"] and found("d") == found("none/x") == found("c/x") == []
    assert fs.find(place, prefix="a2", detail=True)[f"{place}/a2/x"]["size"] == 1
    with pytest.raises(ValueError, match="at least 1"):
        fs.find(place, prefix="a", maxdepth=0)


def test_a_file_whose_calls_are_awaited(fs, place):
    async def write_and_read():
        async with await fs.open_async(f"{place}/d/f", "wb", content_type="x") as file:
            assert await file.write(b"12345") == 5 and file.tell() == 5
            await file.flush()
        assert file.closed
        file = await fs.open_async(f"{place}/d/f")
        assert await file.size() == 5 and await file.read(2) == b"12"
        assert sorted(await asyncio.gather(*(file.read(1) for _ in range(3)))) == [b"3", b"4", b"5"]
        assert await file.seek(-1, os.SEEK_END) == 4 and await file.read() == b"5"
        await file.close()
        with pytest.raises(ValueError, match="only uncompressed bytes"):
            await fs.open_async(f"{place}/d/f", "r")
        with pytest.raises(FileNotFoundError):
            await fs.open_async(f"{place}/none")

    asyncio.run(write_and_read())


def test_moving_and_removing(fs, place):
    fs.pipe({f"{place}/d/{name}": name.encode() for name in ("x", "y")})
    fs.mv(f"{place}/d", f"{place}/e")
    assert fs.find(place) == [f"{place}/e/x", f"{place}/e/y"]
    fs.mv(f"{place}/e/x", f"{place}/new/z")
    fs.mkdir(f"{place}/into")
    fs.mv(f"{place}/e/*", f"{place}/into/")
    assert (
        fs.find(place) == [f"{place}/into/y", f"{place}/new/z"]
        and fs.cat_file(f"{place}/new/z") == b"x"
    )
    for move in (fs.mv, fs.cp_file):
        with pytest.raises(FileNotFoundError):
            move(f"{place}/nothing", f"{place}/not-made/f")
    assert not fs.exists(f"{place}/not-made")
    with pytest.raises(OSError, match="recursive=True"):
        fs.rm(f"{place}/into")
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{place}/nothing", recursive=True)
    fs.rm([f"{place}/into", f"{place}/e", f"{place}/new"], recursive=True)
    assert fs.ls(place) == []
    fs.touch(f"{place}/f")
    fs.pipe_file(f"{place}/f", b"1")
    fs.touch(f"{place}/f", truncate=False)
    assert fs.cat_file(f"{place}/f") == b"1"
    fs.touch(f"{place}/f")
    assert fs.cat_file(f"{place}/f") == b""


def test_removing_to_a_depth_leaves_what_links_lead_to(fs, place):
    kept = {f"{place}/other/{name}": name.encode() for name in ("x", "sub/y")}
    fs.pipe(kept | {f"{place}/d/f": b"", f"{place}/d/sub/deep/f": b""})
    fs.symlink(f"{place}/other", f"{place}/d/link")
    fs.symlink(f"{place}/other", f"{place}/d/sub/link")
    fs.symlink(f"{place}/nothing", f"{place}/d/dangling")
    # Deeper entries keep the directories above them.
    with pytest.raises(OSError, match="not empty"):
        fs.rm(f"{place}/d", recursive=True, maxdepth=2)
    assert fs.cat(list(kept)) == kept and not fs.lexists(f"{place}/d/sub/link")
    assert fs.ls(f"{place}/d/sub", detail=False) == [f"{place}/d/sub/deep"]
    fs.rm(f"{place}/d/sub", recursive=True, maxdepth=2)
    fs.pipe_file(f"{place}/d/f", b"")
    fs.symlink(f"{place}/other", f"{place}/d/again")
    fs.rm(f"{place}/d", recursive=True, maxdepth=1)
    assert fs.cat(list(kept)) == kept and not fs.lexists(f"{place}/d")
    # A link by its own name, also if a pattern matches it.
    fs.symlink(f"{place}/other", f"{place}/link")
    fs.rm(f"{place}/link", recursive=True, maxdepth=2)
    fs.symlink(f"{place}/other", f"{place}/link")
    fs.rm(f"{place}/l*", recursive=True, maxdepth=2)
    assert fs.cat(list(kept)) == kept and fs.ls(place, detail=False) == [f"{place}/other"]
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{place}/nothing", recursive=True, maxdepth=2)
    with pytest.raises(OSError, match="recursive=True"):
        fs.rm(f"{place}/other", maxdepth=2)
    with pytest.raises(ValueError, match="at least 1"):
        fs.rm(f"{place}/other", recursive=True, maxdepth=0)


def test_without_auto_mkdir_a_missing_directory_is_an_error(config, place):
    fs = fsspec.filesystem("braid", config=str(config), auto_mkdir=False)
    for make in (
        lambda: fs.pipe_file(f"{place}/d/f", b""),
        lambda: fs.touch(f"{place}/d/f"),
        lambda: fs.open(f"{place}/d/f", "wb"),
    ):
        with pytest.raises(FileNotFoundError):
            make()
    assert not fs.exists(f"{place}/d")


def test_large_files_go_up_and_down_whole(fs, place, tmp_path):
    data = random.Random(9).randbytes(40 << 20)
    (tmp_path / "up").write_bytes(data)
    fs.put_file(str(tmp_path / "up"), f"{place}/f")
    fs.cp_file(f"{place}/f", f"{place}/g")
    fs.get_file(f"{place}/g", str(tmp_path / "down/f"))
    assert (tmp_path / "down/f").read_bytes() == data


def test_it_is_pickled_and_mapped(fs, place):
    again = pickle.loads(pickle.dumps(fs))
    again.pipe_file(f"{place}/f", b"1")
    mapper = fs.get_mapper(place)
    mapper["a/b"] = b"2"
    assert dict(mapper) == {"f": b"1", "a/b": b"2"}
    del mapper["f"]
    assert os.path.basename(fs.find(place)[0]) == "b" and "f" not in mapper
