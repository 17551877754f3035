"""The type stubs match the module exactly, and the package type-checks against them."""

import subprocess
import sys
from pathlib import Path

import braid

PACKAGE = Path(braid.__file__).parent
CONFIG = Path(__file__).parents[1] / "pyproject.toml"


def mypy(place, *arguments) -> None:
    words = [sys.executable, "-m", *map(str, arguments)]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_the_stubs_have_the_names_and_arguments_of_the_modules(tmp_path):
    # fsspec has no types, so the base class is unknown.
    allowed = tmp_path / "allowed"
    allowed.write_text("braid.fs.BraidFileSystem\n")
    mypy(
        tmp_path,
        "mypy.stubtest",
        "--concise",
        "--mypy-config-file",
        CONFIG,
        "--allowlist",
        allowed,
        "braid",
    )


def test_the_package_keeps_to_its_types(tmp_path):
    mypy(tmp_path, "mypy", "--config-file", CONFIG, "--package", "braid")


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").exists()
