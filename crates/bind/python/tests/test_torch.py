"""PyTorch through fsspec: saves and loads a model, and reads files in a loader's worker processes,
forked or spawned.

torch is not a requirement of the suite: its wheel for Linux includes CUDA, several gigabytes. The
tests run where it is installed.
"""

import struct

import fsspec
import pytest

FILES, RECORDS, NUMBERS = 8, 5, 100


@pytest.fixture
def torch():
    return pytest.importorskip(
        "torch", reason="torch is not installed; try: pip install torch beside the wheel"
    )


@pytest.fixture
def options(config) -> dict[str, str]:
    return {"config": str(config)}


def numbers(file: int, record: int) -> list[float]:
    return [float(file * 10_000 + record * 1_000 + n) for n in range(NUMBERS)]


class Samples:
    """Records of files. Each file is opened where it is read: in a worker."""

    def __init__(self, place: str, options: dict[str, str]):
        self.place, self.options = place, options

    def __len__(self) -> int:
        return FILES * RECORDS

    def __getitem__(self, at: int):
        import torch

        file, record = divmod(at, RECORDS)
        with fsspec.open(f"braid://{self.place}/{file}", "rb", **self.options) as opened:
            opened.seek(record * NUMBERS * 4)
            return at, torch.frombuffer(bytearray(opened.read(NUMBERS * 4)), dtype=torch.float32)


def test_a_model_is_saved_and_loaded(torch, options, place):
    model = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 100))
    url = f"braid://{place}/model.pt"
    with fsspec.open(url, "wb", **options) as file:
        torch.save({"model": model.state_dict(), "step": 7}, file)
    with fsspec.open(url, "rb", **options) as file:
        again = torch.load(file, map_location="cpu")
    assert again["step"] == 7 and again["model"].keys() == model.state_dict().keys()
    assert all(
        torch.equal(again["model"][name], value) for name, value in model.state_dict().items()
    )


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_loader_read_files(torch, options, place, start):
    # This process connects before the workers start: a forked worker inherits the connections and
    # must make its own.
    fs = fsspec.filesystem("braid", **options)
    for file in range(FILES):
        records = b"".join(
            struct.pack(f"={NUMBERS}f", *numbers(file, record)) for record in range(RECORDS)
        )
        fs.pipe_file(f"{place}/{file}", records)
    loader = torch.utils.data.DataLoader(
        Samples(place, options),
        batch_size=6,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=start,
    )
    seen = {}
    for _epoch in range(2):
        for positions, batch in loader:
            seen.update(zip(positions.tolist(), batch.tolist(), strict=True))
    assert seen == {at: numbers(*divmod(at, RECORDS)) for at in range(FILES * RECORDS)}
    assert fs.size(f"{place}/0") == RECORDS * NUMBERS * 4
