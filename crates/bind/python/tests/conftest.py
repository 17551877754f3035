"""A cluster for the whole run, and a directory of it for each test.

``BRAID`` names the ``braid`` command. The default is the debug build of this workspace, else the
command on the path.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import braid
import pytest

VARIABLES = [
    "BRAID_CONFIG",
    "BRAID_MDS",
    "BRAID_KEY",
    "BRAID_AGENT",
    "BRAID_TLS",
    "BRAID_TIMEOUT",
    "BRAID_LOG",
]


def command() -> str:
    built = Path(__file__).parents[4] / "target/debug/braid"
    found = os.environ.get("BRAID") or (str(built) if built.exists() else shutil.which("braid"))
    assert found, "no braid command; try: cargo build -p braid-cli, or BRAID=PATH"
    return found


def run(*arguments: object) -> str:
    """Runs the command without the environment of the tests; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    words = [command(), *map(str, arguments)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def config(tmp_path_factory) -> Path:
    """The braid.toml of a cluster with 4 I/O daemons, which runs as long as the tests."""
    for name in VARIABLES:
        os.environ.pop(name, None)
    place = tmp_path_factory.mktemp("cluster") / "c"
    run("up", place, "--port", 0, "--iods", 4, "--no-mount", "--detach")
    yield place / "braid.toml"
    run("down", place)


@pytest.fixture(scope="session")
def client(config) -> braid.Client:
    with braid.connect(config=config) as client:
        yield client


@pytest.fixture
def place(client, request) -> str:
    """A new directory."""
    path = f"/{re.sub(r'[^A-Za-z0-9]', '_', request.node.name)[:80]}-{os.urandom(4).hex()}"
    client.mkdir(path)
    yield path
    client.rmtree(path)


@pytest.fixture
def fs(config):
    from braid.fs import BraidFileSystem

    return BraidFileSystem(config=str(config))
