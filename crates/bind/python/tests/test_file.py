"""Files: like builtin files, at positions, lists, views."""

import array
import io
import mmap
import os
import random
import threading

import braid
import pytest
from braid import Pattern, View

DATA = random.Random(5).randbytes(5_000_000)


@pytest.fixture
def path(client, place):
    """A file of DATA in stripes of 64 KiB over all I/O daemons."""
    with client.open(f"{place}/data", "wb", stripe_size=65536) as file:
        file.write(DATA)
    return f"{place}/data"


def test_modes_are_those_of_the_builtin(client, place, path):
    with client.open(path, "rb") as file:
        assert isinstance(file, io.BufferedReader) and file.read() == DATA
    with client.open(path, "r+b") as file:
        assert isinstance(file, io.BufferedRandom)
        file.seek(10)
        file.write(b"new")
        file.seek(9)
        assert file.read(5) == DATA[9:10] + b"new" + DATA[13:14]
    with client.open(f"{place}/log", "ab") as one, client.open(f"{place}/log", "ab") as other:
        for file, line in ((one, b"1"), (other, b"2"), (one, b"3")):
            file.write(line)
            file.flush()
    with client.open(f"{place}/log", "a+b") as file:
        file.seek(0)
        assert file.read() == b"123"
    with pytest.raises(FileExistsError):
        client.open(f"{place}/log", "xb")
    for wrong in ("", "rw", "bt", "rr", "q", "+"):
        with pytest.raises(ValueError, match="^invalid mode: .*; try: one of r, w, a, x"):
            client.open(path, wrong)


def test_text_is_decoded_line_by_line(client, place):
    lines = [f"Zeile {number} – ä\n" for number in range(10_000)]
    with client.open(f"{place}/t", "w", encoding="utf-8") as file:
        file.writelines(lines)
    with client.open(f"{place}/t", encoding="utf-8") as file:
        assert list(file) == lines
        assert file.mode == "r"


def test_an_unbuffered_file_is_of_the_raw_family(client, path):
    with client.open(path, "rb", 0) as file:
        assert isinstance(file, io.RawIOBase) and isinstance(file, braid.File)
        assert (file.readable(), file.writable(), file.seekable()) == (True, False, True)
        assert file.read(10) == DATA[:10] and file.tell() == 10
        assert file.seek(-5, io.SEEK_END) == len(DATA) - 5
        assert file.read(100) == DATA[-5:] and file.read(1) == b"" and file.read() == b""
        assert file.seek(1 << 40) == 1 << 40 and file.read() == b""
        with pytest.raises(ValueError, match="negative seek"):
            file.seek(-1)
        file.seek(5)
        with pytest.raises(OSError, match="before the beginning"):
            file.seek(-10, io.SEEK_CUR)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    with pytest.raises(ValueError, match="closed file"):
        file.read(1)
    with pytest.raises(ValueError, match="closed file"):
        file.read_at(1, 0)


def test_bytes_land_in_whatever_exports_memory(client, path):
    with client.open(path, "rb", 0) as file:
        numbers = array.array("d", bytes(8 * 1000))
        assert file.readinto_at(numbers, 100) == 8000 and numbers.tobytes() == DATA[100:8100]
        part = memoryview(bytearray(100))[10:20]
        assert file.readinto(part) == 10 and bytes(part) == DATA[:10]
        with mmap.mmap(-1, 8192) as memory:
            assert file.readinto_at(memory, 7) == 8192 and memory[:] == DATA[7:8199]
        one, two = bytearray(3), bytearray(70_000)
        assert file.readv_at([one, two], 65_535) == 70_003 and one + two == DATA[65_535:135_538]
        with pytest.raises(BufferError, match="read-only"):
            file.readinto_at(bytes(10), 0)
        with pytest.raises(BufferError, match="not contiguous"):
            file.readinto_at(memoryview(bytearray(10))[::2], 0)
        with pytest.raises(TypeError):
            file.readinto_at(17, 0)


def test_writes_at_positions_leave_the_cursor_alone(client, place):
    with client.open(f"{place}/f", "w+b", 0) as file:
        assert file.write_at(b"abc", 100_000) == 3 and file.tell() == 0
        assert file.writev_at([b"12", bytearray(b"34"), memoryview(b"5")], 3) == 5
        assert file.size() == 100_003
        assert file.read_at(10, 0) == b"\0\0\00012345\0\0"
        file.truncate(5)
        assert file.read() == b"\0\0\00012" and file.stat().st_size == 5
        file.allocate(0, 10_000)
        assert file.size() == 10_000
        file.punch_hole(3, 2)
        assert file.read_at(6, 0) == bytes(6)
        file.sync()


def test_ranges_in_any_order_overlapping_and_past_the_end(client, path):
    chance = random.Random(1)
    ranges = [(chance.randrange(len(DATA) + 9000), chance.randrange(9000)) for _ in range(3000)]
    ranges += [
        (0, 100),
        (50, 100),
        (50, 100),
        (60, 10),
        (len(DATA) - 1, 5),
        (len(DATA) + 1, 1),
        (7, 0),
        (149, 1),
    ]
    with client.open(path, "rb", 0) as file:
        assert file.read_ranges(ranges) == [DATA[offset : offset + size] for offset, size in ranges]
        assert file.read_ranges([]) == []
        buffers = [bytearray(size) for _, size in ranges]
        counts = file.readinto_ranges(
            (offset, buffer) for (offset, _), buffer in zip(ranges, buffers)
        )
        wanted = [DATA[offset : offset + size] for offset, size in ranges]
        assert counts == list(map(len, wanted))
        assert [bytes(buffer[:count]) for buffer, count in zip(buffers, counts)] == wanted
        # More extents than fit in one message.
        many = [(offset, 3) for offset in range(0, 4 * 20_000, 4)]
        chance.shuffle(many)
        assert file.read_ranges(many) == [DATA[offset : offset + size] for offset, size in many]


def test_ranges_are_written_in_any_order_and_the_later_one_wins(client, place):
    with client.open(f"{place}/f", "w+b", 0, stripe_size=4096) as file:
        pieces = [(offset, DATA[offset : offset + 1000]) for offset in range(0, 200_000, 1500)]
        random.Random(2).shuffle(pieces)
        assert file.write_ranges(pieces) == sum(len(piece) for _, piece in pieces)
        expected = bytearray(max(offset for offset, _ in pieces) + 1000)
        for offset, piece in pieces:
            expected[offset : offset + len(piece)] = piece
        assert file.read() == expected
        assert file.write_ranges([(1, b"12345"), (0, b"ab"), (4, b"c")]) == 8
        assert file.read_at(7, 0) == b"ab23c5" + expected[6:7]


def test_a_view_shows_a_task_its_own_part(client, path):
    with client.open(path, "rb", 0) as file:
        task = 3
        mine = file.view(offset=task * 4096, group=4096, stride=16 * 4096)
        wanted = b"".join(DATA[at : at + 4096] for at in range(task * 4096, len(DATA), 16 * 4096))
        assert mine.size() == len(wanted)
        assert mine.read_at(len(wanted), 0) == wanted and mine.read() == wanted
        assert mine.seek(-3, io.SEEK_END) == len(wanted) - 3 and mine.read(10) == wanted[-3:]
        assert mine.read_ranges([(5, 2)]) == [DATA[5:7]]
        assert (mine.file_offset(0), mine.file_offset(4097)) == (3 * 4096, 19 * 4096 + 1)
        assert (mine.position(19 * 4096 + 1), mine.position(0)) == (4097, None)
        again = mine.view(View.extents([(10, 5), (100, 7)]))
        assert again.read() == DATA[10:15] + DATA[100:107]
        with pytest.raises(TypeError):
            file.view(View.strided(0, 1, 2), group=1)
        with pytest.raises(TypeError):
            file.view()


def test_nested_views_and_blocks_of_arrays(client, path):
    rows, columns, item = 40, 50, 8
    cells = [
        [DATA[(row * columns + column) * item :][:item] for column in range(columns)]
        for row in range(rows)
    ]
    with client.open(path, "rb", 0) as file:
        block = file.view(View.subarray([rows, columns], [10, 7], [5, 20], item))
        wanted = b"".join(b"".join(cells[row][20:27]) for row in range(5, 15))
        assert block.read_at(len(wanted), 0) == wanted
        dealt = file.view(View.block_cyclic([(rows, 3, 2, 1), (columns, 4, 3, 0)], item))
        own = (
            [row for row in range(rows) if row // 3 % 2 == 1],
            [column for column in range(columns) if column // 4 % 3 == 0],
        )
        wanted = b"".join(cells[row][column] for row in own[0] for column in own[1])
        assert dealt.read_at(len(wanted), 0) == wanted
        # Two extents of 3 bytes, 10 apart; that 4 times, 100 apart; and one byte after it. Repeats
        # every 500.
        inner = Pattern.vector(4, 100, Pattern.vector(2, 10, Pattern.bytes(3)))
        nested = View(Pattern.struct([(0, inner), (320, Pattern.bytes(1))]), offset=7, extent=500)
        once = [7 + 100 * i + 10 * j for i in range(4) for j in range(2)]
        wanted = b"".join(
            b"".join(DATA[500 * n + at :][:3] for at in once) + DATA[500 * n + 327 :][:1]
            for n in range(20)
        )
        assert file.view(nested).read_at(len(wanted), 0) == wanted
        assert (len(inner), inner.span) == (24, 313)
    for wrong in (
        lambda: View.strided(0, 10, 5),
        lambda: View.extents([(5, 1), (0, 1)]),
        lambda: Pattern.bytes(0),
        lambda: Pattern.vector(2**40, 2**40, Pattern.bytes(1)),
    ):
        with pytest.raises((ValueError, OSError)):
            wrong()


def test_two_tasks_write_through_interleaved_views(client, place):
    with client.open(f"{place}/f", "w+b", 0, stripe_size=4096) as file:
        tasks = [file.view(offset=rank * 100, group=100, stride=200) for rank in range(2)]
        for rank, task in enumerate(tasks):
            assert task.write(bytes([rank + 1]) * 10_000) == 10_000
        assert file.read() == (b"\x01" * 100 + b"\x02" * 100) * 100
        tasks[0].close()
        assert tasks[1].read_at(3, 0) == b"\x02" * 3
        with pytest.raises(io.UnsupportedOperation, match="through a view"):
            tasks[1].truncate(0)
    # The file was closed first; its view works until it is closed too.
    assert tasks[1].read_at(3, 0) == b"\x02" * 3
    tasks[1].close()


def test_threads_share_a_file(client, path):
    outcomes = []

    def read(file, seed):
        chance = random.Random(seed)
        for _ in range(50):
            offset, size = chance.randrange(len(DATA)), chance.randrange(100_000)
            outcomes.append(file.read_at(size, offset) == DATA[offset : offset + size])

    with client.open(path, "rb", 0) as file:
        threads = [threading.Thread(target=read, args=(file, seed)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outcomes == [True] * 400


def test_an_unreferenced_file_is_flushed_when_it_is_collected(client, place):
    file = client.open(f"{place}/f", "wb")
    file.write(b"kept")
    del file
    with client.open(f"{place}/f", "rb") as file:
        assert file.read() == b"kept"
