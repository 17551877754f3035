"""A zarr array: it needs only a `braid://` path."""

import numpy
import zarr

values = numpy.add.outer(numpy.arange(1000), numpy.arange(1000) / 1000)
zarr.create_array("braid:///examples/heights.zarr", data=values, chunks=(250, 250), overwrite=True)

heights = zarr.open_array("braid:///examples/heights.zarr", mode="r")
print(heights.shape, heights.dtype)
print("row 500, columns 250 to 252:", heights[500, 250:253])
