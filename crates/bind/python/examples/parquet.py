"""Parquet with pyarrow: writes row groups, and reads one column of one of them."""

import fsspec
import pyarrow
import pyarrow.parquet

fs = fsspec.filesystem("braid")
table = pyarrow.table({"n": range(1_000_000), "square": [n * n for n in range(1_000_000)]})
pyarrow.parquet.write_table(
    table, "/examples/squares.parquet", filesystem=fs, row_group_size=100_000
)

with fs.open("/examples/squares.parquet") as file:
    squares = pyarrow.parquet.ParquetFile(file)
    print(squares.num_row_groups, "row groups")
    print("the square of 700,003:", squares.read_row_group(7, ["square"])["square"][3])
