"""Each task of a program sees its own part of a file. Here the tasks run one after the other."""

import braid

TASKS, BLOCK = 4, 4096

client = braid.connect()
client.makedirs("/examples", exist_ok=True)
with client.open("/examples/matrix", "w+b", 0, stripe_size=65536) as file:
    for rank in range(TASKS):
        mine = file.view(offset=rank * BLOCK, group=BLOCK, stride=TASKS * BLOCK)
        # One request to each I/O daemon, not one for each block.
        mine.write(bytes([rank]) * (16 * BLOCK))
    print("bytes in the file:", file.size())
    print(
        "first byte of the first six blocks:",
        [file.read_at(1, block * BLOCK)[0] for block in range(6)],
    )
    rows, columns = 64, 4096
    tile = file.view(braid.View.subarray([rows, columns], [2, 3], [8, 100], 1))
    print("a tile of 2 x 3:", tile.read(6).hex(" "))
    print(
        "pieces in any order:",
        [piece.hex() for piece in file.read_ranges([(3 * BLOCK, 2), (0, 3)])],
    )
