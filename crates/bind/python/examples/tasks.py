"""asyncio: many concurrent reads, started from one thread."""

import asyncio

import braid.aio


async def main() -> None:
    async with await braid.aio.connect() as client:
        await client.makedirs("/examples", exist_ok=True)
        async with await client.open("/examples/log", "w+b") as file:
            await asyncio.gather(
                *(file.write_at(b"line %04d\n" % line, line * 10) for line in range(1000))
            )
            print(await file.size(), "bytes")
            lines = await asyncio.gather(*(file.read_at(9, line * 10) for line in (0, 500, 999)))
            print(*(line.decode() for line in lines), sep=", ")


asyncio.run(main())
