"""The asyncio calls."""

import asyncio
import os

import braid.aio
import pytest


def awaited(test):
    """Runs a coroutine as a test, without a plugin."""

    def run(config, place):
        asyncio.run(test(config, place))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@awaited
async def test_calls_at_positions_run_at_the_same_time(config, place):
    data = os.urandom(2 << 20)
    async with await braid.aio.connect(config=config) as client:
        async with await client.open(f"{place}/f", "w+b", stripe_size=65536) as file:
            step = 4096
            writes = (file.write_at(data[at : at + step], at) for at in range(0, len(data), step))
            assert sum(await asyncio.gather(*writes)) == len(data)
            reads = await asyncio.gather(
                *(file.read_at(step, at) for at in range(0, len(data), step))
            )
            assert b"".join(reads) == data
            assert await file.read_ranges([(5, 2), (0, 3)]) == [data[5:7], data[:3]]
            memory = bytearray(100)
            assert await file.readinto_at(memory, 50) == 100 and memory == data[50:150]
            view = file.view(offset=0, group=10, stride=100)
            assert await view.read_at(25, 0) == data[:10] + data[100:110] + data[200:205]
            assert (await file.size(), (await file.stat()).st_size) == (len(data), len(data))
            await file.sync()
        assert await client.listdir(place) == ["f"] and (
            await client.stat(f"{place}/f")
        ).st_size == len(data)
        await client.rename(f"{place}/f", f"{place}/g", replace=False)
        assert await client.exists(f"{place}/g")


@awaited
async def test_the_loop_goes_on_while_calls_wait(config, place):
    async with await braid.aio.connect(config=config) as client:
        turns = 0

        async def turn():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        async with await client.open(f"{place}/f", "wb") as file:
            await asyncio.gather(*(file.write_at(bytes(1 << 20), at << 20) for at in range(32)))
        turning.cancel()
        assert turns > 32


@awaited
async def test_more_tasks_than_a_client_has_threads_write_and_read_together(config, place):
    tasks, piece, each = braid.aio.CALLS_AT_ONCE + 2, 100, 1000
    data = os.urandom(tasks * each)

    async def task(client, group):
        start, step = group.rank * piece, tasks * piece
        mine = b"".join(data[at : at + piece] for at in range(start, len(data), step))
        async with await client.open(f"{place}/f", "r+b") as whole:
            file = whole.view(offset=start, group=piece, stride=step)
            assert await file.write_all_at(group, mine, 0, mode="server") == each
            assert await file.read_all_at(group, each + 1, 0, mode="server") == mine
            memory = bytearray(each)
            assert await file.readinto_all_at(group, memory, piece) == each - piece
            assert memory[: each - piece] == mine[piece:]

    async with await braid.aio.connect(config=config) as client:
        await client.make_file(f"{place}/f")
        await asyncio.gather(*(task(client, group) for group in braid.Group.threads(tasks)))
        async with await client.open(f"{place}/f", "rb") as file:
            assert await file.readall() == data
            async with await client.open(f"{place}/copy", "w+b") as copy:
                assert await copy.copy_from(file, piece, 0, each) == each
                assert await copy.read_at(each + 1, 0) == data[piece : piece + each]


@awaited
async def test_directories_are_listed_and_walked(config, place):
    async with await braid.aio.connect(config=config) as client:
        count = braid.aio.ENTRIES_AT_ONCE + 10
        for name in ("a/deep", "b"):
            await client.makedirs(f"{place}/{name}")
        await asyncio.gather(*(client.make_file(f"{place}/b/{number}") for number in range(count)))
        entries = [entry async for entry in client.scandir(f"{place}/b", attributes=True)]
        assert sorted(int(entry.name) for entry in entries) == list(range(count))
        assert all(entry.is_file() and entry.attributes.st_size == 0 for entry in entries)
        walked = {
            top: (sorted(directories), len(files))
            async for top, directories, files in client.walk(place)
        }
        expected = {place: (["a", "b"], 0), f"{place}/a": (["deep"], 0), f"{place}/a/deep": ([], 0)}
        assert walked == expected | {f"{place}/b": ([], count)}
        with pytest.raises(FileNotFoundError):
            async for _ in client.scandir(f"{place}/none"):
                pass


@awaited
async def test_files_are_used_and_closed_after_their_client(config, place):
    client = await braid.aio.connect(config=config)
    file, gone = await client.open(f"{place}/f", "w+b"), await client.open(f"{place}/f", "rb")
    view = file.view(offset=1, group=1, stride=2)
    await gone.close()
    await client.close()
    await client.close()
    with pytest.raises(ValueError, match="closed"):
        await client.stat(place)
    assert await file.write_at(b"abcd", 0) == 4 and await view.read_at(4, 0) == b"bd"
    await file.sync()
    await file.close()
    assert await view.read_at(4, 0) == b"bd"
    await view.close()
    await view.close()
    with pytest.raises(ValueError, match="closed"):
        await file.size()


@awaited
async def test_errors_are_those_of_the_calls(config, place):
    async with await braid.aio.connect(config=config) as client:
        with pytest.raises(FileNotFoundError, match="try: "):
            await client.open(f"{place}/none")
        with pytest.raises(ValueError, match="try: one with b"):
            await client.open(f"{place}/none", "r")
    with pytest.raises(OSError, match="127.0.0.1:1"):
        await braid.aio.connect("127.0.0.1:1", key=config.parent / "keys/client.key", timeout=1)
