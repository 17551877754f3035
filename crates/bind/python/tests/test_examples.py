"""The examples run, and print the output in docs/python.md."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT.parents[2] / "docs/python.md"
EXAMPLES = sorted(PROJECT.joinpath("examples").glob("*.py"))


def test_there_are_examples():
    assert {"hdf5.py", "parquet.py", "zarr_array.py"} <= {example.name for example in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_prints_what_the_manual_says(example, config, client):
    client.makedirs("/examples", exist_ok=True)
    environment = os.environ | {"BRAID_CONFIG": str(config), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, example], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout and f"\n{done.stdout}```" in DOCS.read_text(), done.stdout


def test_the_manual_shows_the_examples_as_they_are():
    manual = DOCS.read_text()
    for example in EXAMPLES:
        shown = example.read_text().split('"""', 2)[2].lstrip("\n")
        assert shown in manual, example.name
