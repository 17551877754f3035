"""Libraries without knowledge of BraidFS open its files: as fsspec paths, or file objects."""

import numpy
import pytest


@pytest.fixture
def options(config) -> dict[str, str]:
    return {"config": str(config)}


def test_parquet_with_pyarrow(fs, place):
    import pyarrow
    import pyarrow.dataset
    import pyarrow.parquet

    table = pyarrow.table({"n": range(100_000), "s": [f"row {n}" for n in range(100_000)]})
    pyarrow.parquet.write_table(table, f"{place}/t.parquet", filesystem=fs, row_group_size=10_000)
    assert pyarrow.parquet.read_table(f"{place}/t.parquet", filesystem=fs) == table
    with fs.open(f"{place}/t.parquet") as file:
        opened = pyarrow.parquet.ParquetFile(file)
        assert (
            opened.num_row_groups == 10
            and opened.read_row_group(7, ["n"])["n"][0].as_py() == 70_000
        )
    pyarrow.dataset.write_dataset(
        table.append_column("part", pyarrow.array([n % 3 for n in range(100_000)])),
        f"{place}/d",
        format="parquet",
        partitioning=["part"],
        partitioning_flavor="hive",
        filesystem=fs,
    )
    dataset = pyarrow.dataset.dataset(f"{place}/d", filesystem=fs, partitioning="hive")
    assert dataset.to_table(filter=pyarrow.dataset.field("part") == 1).num_rows == 33_333


def test_parquet_and_csv_with_pandas(options, place):
    import pandas

    frame = pandas.DataFrame({"a": numpy.arange(10_000), "b": numpy.arange(10_000) / 7})
    frame.to_parquet(f"braid://{place}/p/f.parquet", storage_options=options)
    pandas.testing.assert_frame_equal(
        pandas.read_parquet(f"braid://{place}/p/f.parquet", storage_options=options), frame
    )
    frame.to_csv(f"braid://{place}/f.csv.gz", index=False, storage_options=options)
    pandas.testing.assert_frame_equal(
        pandas.read_csv(f"braid://{place}/f.csv.gz", storage_options=options), frame
    )


def test_zarr(options, fs, place):
    import zarr

    values = numpy.arange(400 * 300, dtype="f8").reshape(400, 300)
    group = zarr.open_group(f"braid://{place}/g", mode="w", storage_options=options)
    group.create_array("chunked", data=values, chunks=(50, 60))
    group.create_array("sharded", data=values, chunks=(10, 10), shards=(200, 300))
    group.attrs["unit"] = "m"
    again = zarr.open_group(f"braid://{place}/g", mode="r", storage_options=options)
    assert again.attrs["unit"] == "m" and sorted(again) == ["chunked", "sharded"]
    for name in again:
        assert (again[name][:] == values).all() and (
            again[name][37:141, 5:222] == values[37:141, 5:222]
        ).all()
    assert fs.isfile(f"{place}/g/zarr.json")
    group["chunked"][0, 0] = -1.0
    assert (
        zarr.open_array(f"braid://{place}/g/chunked", mode="r", storage_options=options)[0, 0]
        == -1.0
    )


def test_zarr_with_xarray(options, fs, place):
    import xarray

    values = numpy.arange(40 * 30 * 20, dtype="f8").reshape(40, 30, 20)
    axes = {"time": numpy.arange(40), "y": numpy.arange(30) * 0.5, "x": numpy.arange(20) * 0.25}
    heat = xarray.Dataset({"heat": (tuple(axes), values, {"unit": "K"})}, axes, {"title": "a rod"})
    store = f"braid://{place}/heat.zarr"
    heat.to_zarr(store, storage_options=options, encoding={"heat": {"chunks": (10, 15, 20)}})
    with xarray.open_zarr(store, storage_options=options, chunks=None) as again:
        xarray.testing.assert_identical(again.load(), heat)
    with xarray.open_zarr(store, storage_options=options, chunks=None) as again:
        assert (again["heat"].sel(y=7.0, time=slice(5, 25)).values == values[5:26, 14]).all()
    more = heat.assign_coords(time=axes["time"] + 40)
    more.to_zarr(store, storage_options=options, append_dim="time")
    with xarray.open_zarr(store, storage_options=options, chunks=None) as again:
        assert again.sizes["time"] == 80 and float(again["heat"][41, 2, 3]) == values[1, 2, 3]
    assert fs.isfile(f"{place}/heat.zarr/zarr.json")


def test_hdf5_with_h5py(fs, place):
    import h5py

    values = numpy.arange(200 * 500, dtype="i4").reshape(200, 500)
    with fs.open(f"{place}/f.h5", "w+b") as file, h5py.File(file, "w") as hdf:
        hdf.create_dataset("contiguous", data=values)
        hdf.create_dataset("chunked", data=values, chunks=(20, 50), compression="gzip")
        hdf["chunked"].attrs["unit"] = "m"
    with fs.open(f"{place}/f.h5", "rb") as file, h5py.File(file, "r") as hdf:
        assert (hdf["contiguous"][3:150:7, 11] == values[3:150:7, 11]).all()
        assert (hdf["chunked"][:] == values).all() and hdf["chunked"].attrs["unit"] == "m"
    with fs.open(f"{place}/f.h5", "r+b") as file, h5py.File(file, "r+") as hdf:
        hdf["contiguous"][0, 0] = 77
    with fs.open(f"{place}/f.h5", "rb") as file, h5py.File(file, "r") as hdf:
        assert hdf["contiguous"][0, 0] == 77 and hdf["contiguous"][0, 1] == 1


def test_an_array_of_numpy_is_written_and_read_in_place(client, place):
    values = numpy.random.default_rng(1).random((300, 400))
    with client.open(f"{place}/a", "w+b", 0) as file:
        assert file.write(values) == values.nbytes
        again = numpy.empty_like(values)
        assert file.readinto_at(again, 0) == values.nbytes
        assert (again == values).all()
        block = numpy.empty((50, 60))
        from braid import View

        view = file.view(View.subarray(values.shape, block.shape, (100, 200), values.itemsize))
        assert view.readinto(block) == block.nbytes
        assert (block == values[100:150, 200:260]).all()
    with client.open(f"{place}/a", "rb") as file:
        assert (numpy.frombuffer(file.read()).reshape(values.shape) == values).all()
