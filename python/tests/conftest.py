"""Fixtures of the package's own tests."""

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="session")
def cli():
    """The command line, as a function from arguments to standard output: FLASHLAB, or a debug build in this checkout."""
    program = pathlib.Path(os.environ.get("FLASHLAB", ROOT / "target/debug/flashlab"))
    if not program.exists():
        pytest.skip(f"{program} is not built; `cargo build` builds it, or FLASHLAB names another one")

    def run(*arguments):
        completed = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        return completed.stdout if completed.returncode == 0 else completed.stderr

    return run


@pytest.fixture(scope="session")
def golden():
    """The golden digest of an experiment."""

    def digest(name):
        text = (ROOT / "experiments" / name / "golden.txt").read_text()
        return text.split("digest ")[1].split(",")[0]

    return digest


@pytest.fixture(scope="session")
def cli_json(cli):
    return lambda *arguments: json.loads(cli(*arguments))
