"""The sources of settings."""

import os
import subprocess

import braid
import pytest
from braid import _settings
from conftest import command


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Nothing is configured: no file, no variable, no agent."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(_settings, "AGENT_SOCKET_DEFAULT", tmp_path / "no-agent")
    monkeypatch.setattr(_settings, "_places", lambda: [tmp_path / "braid.toml"])
    return tmp_path


def resolve(**given):
    names = ("mds", "key", "agent", "tls", "timeout", "config")
    return _settings.resolve(**{name: given.get(name) for name in names})


def test_without_key_and_agent_it_says_what_to_do(elsewhere):
    with pytest.raises(ValueError, match="neither a key nor an agent.*try: braid.connect"):
        braid.connect()


def test_arguments_win_over_the_environment_and_that_over_the_file(elsewhere, monkeypatch):
    text = (
        "[cluster]\nmds = ['file:1', 'file:2']\ntls = 'never'\n"
        "[client]\nkey = 'k'\ntimeout = '500ms'\n"
    )
    (elsewhere / "braid.toml").write_text(text)
    found = resolve()
    assert (found.mds, found.key, found.tls, found.timeout) == (
        ["file:1", "file:2"],
        elsewhere / "k",
        "never",
        0.5,
    )
    monkeypatch.setenv("BRAID_MDS", "env:1,env:2")
    monkeypatch.setenv("BRAID_AGENT", "/env.sock")
    found = resolve()
    assert (found.mds, found.key, str(found.agent)) == (["env:1", "env:2"], None, "/env.sock")
    found = resolve(mds="arg:1", key="/arg.key", timeout=2)
    assert (found.mds, str(found.key), found.agent, found.timeout) == (
        ["arg:1"],
        "/arg.key",
        None,
        2.0,
    )


def test_what_makes_no_sense_is_refused(elsewhere):
    (elsewhere / "braid.toml").write_text("[cluster\n")
    with pytest.raises(ValueError, match="braid.toml.*try: braid config explain"):
        resolve()
    for wrong in ("3h", "", "-1s"):
        with pytest.raises(ValueError, match="not a time"):
            _settings.seconds(wrong)


def test_a_key_that_nobody_knows_is_refused_with_its_line(elsewhere):
    unknown = {
        "[cluster]\nmsd = ['a:1']\n": "line 2: unknown field `msd`",
        "[client]\nkey = 'k'\ntimeuot = '5s'\n": "line 3: unknown field `timeuot`",
        "[clinet]\nkey = 'k'\n": "line 1: unknown field `clinet`",
        "[client]\ntimeout = '3h'\n": "not a time",
        "[cluster]\ntls = 'perhaps'\n": "line 2: unknown variant `perhaps`",
    }
    for text, why in unknown.items():
        (elsewhere / "braid.toml").write_text(text)
        with pytest.raises(
            ValueError, match=f"reading .*braid.toml: .*{why}.*; try: braid config explain"
        ):
            resolve(key="k")
    with pytest.raises(FileNotFoundError, match="reading .*none.toml"):
        resolve(key="k", config=elsewhere / "none.toml")


def test_a_program_comes_in_through_the_agent(config, elsewhere):
    socket = elsewhere / "agent.sock"
    with pytest.raises(FileNotFoundError, match="no agent at .*agent.sock; try: braid agent"):
        braid.connect(config=config, agent=socket)
    words = [
        command(),
        "--config",
        config,
        "agent",
        "--socket",
        socket,
        "--key",
        config.parent / "keys/client.key",
    ]
    agent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert "listens" in agent.stdout.readline()
        with braid.connect(agent=socket) as client:
            assert client.whoami()[:2] == (os.getuid(), os.getgid())
    finally:
        agent.terminate()
        agent.wait(30)


def test_a_server_that_is_not_there_is_named_within_the_time_bound(config):
    key = config.parent / "keys/client.key"
    with pytest.raises(OSError, match="127.0.0.1:1.*try: "):
        braid.connect("127.0.0.1:1", key=key, timeout=1)
