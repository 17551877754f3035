"""``braid://`` of fsspec: its own abstract test-suite, and what that does not ask."""

import datetime
import os
import pickle
import random

import fsspec
import fsspec.tests.abstract as abstract
import pytest


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
    assert fs.client is fsspec.filesystem("braid", config=str(config)).client, "instances are shared"


def test_a_server_in_the_url_is_the_one_that_is_asked(config, place):
    (address,) = [line.split("=")[1].strip(" []'\"") for line in config.read_text().splitlines() if line.startswith("mds")][:1]
    key = str(config.parent / "keys/client.key")
    fs, path = fsspec.url_to_fs(f"braid://{address}{place}", key=key)
    assert fs.storage_options["mds"] == address and fs.isdir(path)
    with pytest.raises(ValueError, match="no HOST:PORT; try: braid:///data/f for a path"):
        fsspec.url_to_fs("braid://data/f", key=key)


def test_ranges_of_many_files_come_in_the_order_asked_for(fs, place):
    chance = random.Random(3)
    contents = {f"{place}/{name}": chance.randbytes(50_000) for name in "abcd"}
    fs.pipe(contents)
    asked = [(chance.choice(list(contents)), chance.randrange(60_000), chance.randrange(5000)) for _ in range(2000)]
    paths, starts, ends = [path for path, _, _ in asked], [start for _, start, _ in asked], [s + n for _, s, n in asked]
    assert fs.cat_ranges(paths, starts, ends) == [contents[path][start : start + size] for path, start, size in asked]
    path = f"{place}/a"
    slices = [(None, None), (None, 10), (-10, None), (-20, -5), (100, 50), (49_990, 60_000), (5, -1)]
    found = fs.cat_ranges([path] * len(slices), [start for start, _ in slices], [end for _, end in slices])
    assert found == [contents[path][start:end] for start, end in slices]
    assert [fs.cat_file(path, start, end) for start, end in slices] == found
    far = [(2**70, 2**71), (-(2**70), 7), (0, 2**70), (49_999, 2**62), (2**62, 2**63), (-3, 2**40), (0, -(2**70))]
    found = fs.cat_ranges([path] * len(far), [start for start, _ in far], [end for _, end in far])
    assert found == [contents[path][start:end] for start, end in far], "no memory is taken for what no file has"
    assert fs.cat_ranges([], [], []) == [] and fs.cat_ranges([path, f"braid://{path}/"], [1, 2], [3, 4]) == [contents[path][1:3], contents[path][2:4]]
    with pytest.raises(TypeError):
        fs.cat_file(path, 0.5, 2)
    assert fs.cat_ranges([path, f"{place}/b"], 0, 3) == [contents[path][:3], contents[f"{place}/b"][:3]]
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
    assert (info["name"], info["size"], info["type"], info["islink"]) == (f"{place}/d/f", 5, "file", False)
    assert fs.info(f"braid://{place}/l/")["destination"] == f"{place}/d/f" and fs.info(f"{place}/l")["size"] == 5
    assert fs.ls(place, detail=False) == [f"{place}/{name}" for name in ("d", "dangling", "l")]
    assert [(one["name"][-1], one["type"]) for one in fs.ls(place)] == [("d", "directory"), ("g", "other"), ("l", "file")]
    assert fs.ls(f"{place}/d/f", detail=False) == [f"{place}/d/f"] and fs.find(place) == [f"{place}/d/f", f"{place}/dangling", f"{place}/l"]
    assert fs.glob(f"{place}/*/f") == [f"{place}/d/f"] and fs.isdir(f"{place}/d") and fs.isfile(f"{place}/l")
    assert fs.exists(place) and not fs.exists(f"{place}/dangling") and fs.lexists(f"{place}/dangling")
    assert not fs.exists(f"{place}/d/f/below")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{place}/nothing")
    now = datetime.datetime.now(datetime.UTC)
    assert abs(fs.created(f"{place}/d/f") - now) < datetime.timedelta(minutes=5)
    assert abs(fs.modified(f"{place}/d/f") - now) < datetime.timedelta(minutes=5)
    before, checksum = fs.ukey(f"{place}/d/f"), fs.checksum(f"{place}/d/f")
    assert fs.ukey(f"{place}/d/f") == before and fs.checksum(f"{place}/d/f") == checksum
    fs.pipe_file(f"{place}/d/f", b"54321")
    assert fs.ukey(f"{place}/d/f") != before


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


def test_moving_and_removing(fs, place):
    fs.pipe({f"{place}/d/{name}": name.encode() for name in ("x", "y")})
    fs.mv(f"{place}/d", f"{place}/e")
    assert fs.find(place) == [f"{place}/e/x", f"{place}/e/y"]
    fs.mv(f"{place}/e/x", f"{place}/new/z")
    fs.mkdir(f"{place}/into")
    fs.mv(f"{place}/e/*", f"{place}/into/")
    assert fs.find(place) == [f"{place}/into/y", f"{place}/new/z"] and fs.cat_file(f"{place}/new/z") == b"x"
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
    # What lies deeper keeps the directories above it.
    with pytest.raises(OSError, match="not empty"):
        fs.rm(f"{place}/d", recursive=True, maxdepth=2)
    assert fs.cat(list(kept)) == kept and not fs.lexists(f"{place}/d/sub/link")
    assert fs.ls(f"{place}/d/sub", detail=False) == [f"{place}/d/sub/deep"]
    fs.rm(f"{place}/d/sub", recursive=True, maxdepth=2)
    fs.pipe_file(f"{place}/d/f", b"")
    fs.symlink(f"{place}/other", f"{place}/d/again")
    fs.rm(f"{place}/d", recursive=True, maxdepth=1)
    assert fs.cat(list(kept)) == kept and not fs.lexists(f"{place}/d")
    # A link by its own name, also where a pattern finds it.
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
