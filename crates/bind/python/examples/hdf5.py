"""HDF5 with h5py, over a file object of fsspec."""

import fsspec
import h5py
import numpy

fs = fsspec.filesystem("braid")
with fs.open("/examples/run.h5", "w+b") as file, h5py.File(file, "w") as hdf:
    speeds = hdf.create_dataset(
        "speeds", data=numpy.arange(1e6).reshape(1000, 1000), chunks=(100, 100)
    )
    speeds.attrs["unit"] = "m/s"

with fs.open("/examples/run.h5", "rb") as file, h5py.File(file, "r") as hdf:
    print(hdf["speeds"], "in", hdf["speeds"].attrs["unit"])
    print("a corner:", hdf["speeds"][998:, 998:].tolist())
