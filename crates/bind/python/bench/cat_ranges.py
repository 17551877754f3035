"""`cat_ranges` of 10,000 ranges of 4 KiB, compared with one read for each range. Both run in turns
in one run, so that the ratios are of the same machine.

    python bench/cat_ranges.py BRAID_TOML [--files 1] [--ranges 10000] [--rounds 5] [--json]

The ranges are 16 KiB apart, in random order, over the given number of files with stripes of 64 KiB.
"One read for each range" is fsspec's own `cat_ranges`, a `cat_file` for each range (open, read,
close), and, for a fair comparison, `read_at` of an open file. With --json it prints the seconds of
each method.
"""

import argparse
import json
import random
import statistics
import time

from fsspec.spec import AbstractFileSystem

from braid.fs import BraidFileSystem

BYTES, APART = 4096, 16_384


def main(config: str, files: int, ranges: int, rounds: int, as_json: bool) -> None:
    fs = BraidFileSystem(config=config)
    place = "/bench-cat-ranges"
    chance = random.Random(1)
    each = ranges // files
    paths = [f"{place}/{number}" for number in range(files)]
    contents = {path: chance.randbytes(each * APART) for path in paths}
    for path, content in contents.items():
        fs.pipe_file(path, content, stripe_size=65536)
    asked = [(path, number * APART) for path in paths for number in range(each)]
    chance.shuffle(asked)
    names, starts, ends = (
        [path for path, _ in asked],
        [start for _, start in asked],
        [start + BYTES for _, start in asked],
    )
    handles = {path: fs.client.open(path, "rb", 0) for path in paths}
    ways = {
        "cat_ranges": lambda: fs.cat_ranges(names, starts, ends),
        "cat_file each": lambda: AbstractFileSystem.cat_ranges(fs, names, starts, ends),
        "read_at each, open": lambda: [
            handles[path].read_at(BYTES, start) for path, start in asked
        ],
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    wanted = [contents[path][start : start + BYTES] for path, start in asked]
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.perf_counter()
            found = way()
            times[name].append(time.perf_counter() - begun)
            assert found == wanted, f"{name}: wrong bytes"
            # Not part of the time of the next method.
            del found
    for handle in handles.values():
        handle.close()
    fs.rm(place, recursive=True)
    if as_json:
        print(json.dumps(times))
        return
    ours = times["cat_ranges"]
    for name, took in times.items():
        ratios = sorted(other / own for other, own in zip(took, ours))
        median, spread = (
            statistics.median(took) * 1e3,
            f"{min(took) * 1e3:.1f}..{max(took) * 1e3:.1f}",
        )
        print(f"{name:20} {median:8.1f} ms ({spread})   {statistics.median(ratios):6.1f} x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--ranges", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    main(asked.config, asked.files, asked.ranges, asked.rounds, asked.json)
