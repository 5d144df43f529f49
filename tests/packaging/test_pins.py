"""pyproject.toml, constraints.txt and binder/ say the same, and Binder's builder will take what is there."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9._+!-]+)$")


def entries(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def pins(path: Path) -> dict[str, Version]:
    found = [PIN.match(line) for line in entries(path) if not line.startswith("--")]
    return {canonicalize_name(pin["name"]): Version(pin["version"]) for pin in found if pin}


def requirements(*extras: str) -> list[Requirement]:
    """What the package and these extras ask for directly; references to its own extras are followed."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = [Requirement(line) for line in lines]
    own = [requirement for requirement in found if requirement.name == PROJECT["name"]]
    followed = [further for requirement in own for further in requirements(*sorted(requirement.extras))]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]] + followed


@pytest.mark.parametrize("path", [ROOT / "constraints.txt", BINDER / "requirements.txt"], ids=lambda path: path.name)
def test_every_line_pins_one_version(path):
    loose = [line for line in entries(path) if not line.startswith("--extra-index-url ") and not PIN.match(line)]
    assert loose == []
    assert len(pins(path)) == len([line for line in entries(path) if not line.startswith("--")])


@pytest.mark.parametrize("requirement", requirements("test"), ids=str)
def test_the_constraints_are_within_the_ranges(requirement):
    pinned = pins(ROOT / "constraints.txt")[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned)


@pytest.mark.parametrize("requirement", requirements("lab", "examples"), ids=str)
def test_binder_has_what_the_notebooks_need(requirement):
    name = canonicalize_name(requirement.name)
    if name == "jupyterlab":
        # Binder's image brings its own, together with a server and a hub that fit it.
        assert name not in pins(BINDER / "requirements.txt")
    else:
        assert requirement.specifier.contains(pins(BINDER / "requirements.txt")[name])


def test_binder_and_development_use_the_same_versions():
    development = pins(ROOT / "constraints.txt")
    for name, version in pins(BINDER / "requirements.txt").items():
        assert development[name].public == version.public, name


def test_constraints_name_no_build_that_only_one_index_carries():
    assert [name for name, version in pins(ROOT / "constraints.txt").items() if version.local] == []


def test_binder_takes_the_cpu_build_of_torch():
    assert pins(BINDER / "requirements.txt")["torch"].local == "cpu"
    assert "--extra-index-url https://download.pytorch.org/whl/cpu" in entries(BINDER / "requirements.txt")


def test_the_package_of_a_notebook_that_comes_without_its_dependencies():
    pinned = pins(ROOT / "constraints.txt")["silero-vad"]
    notebook = (ROOT / "notebooks" / "02_torchscript.py").read_text(encoding="utf-8")
    assert re.findall(r"--no-deps silero-vad==([\w.]+)", notebook) == [str(pinned)]
    assert "ONLY_DATA := --no-deps silero-vad\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "pip install --no-deps --no-cache-dir -c constraints.txt silero-vad\n" in (BINDER / "postBuild").read_text(
        encoding="utf-8"
    )
    # With a requirement, pip would take what it depends on too.
    assert "silero-vad" not in pins(BINDER / "requirements.txt")
    assert "silero-vad" not in {requirement.name for requirement in requirements("test")}


def test_binder_folder_is_complete():
    post_build = BINDER / "postBuild"
    assert os.access(post_build, os.X_OK)
    assert post_build.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
    assert "graphviz" in entries(BINDER / "apt.txt")
    [runtime] = entries(BINDER / "runtime.txt")
    assert SpecifierSet(PROJECT["requires-python"]).contains(runtime.removeprefix("python-"))
    # repo2docker prefers an environment.yml to everything else here.
    assert not (BINDER / "environment.yml").exists()


def test_every_public_file_of_the_package_is_typed_and_licensed():
    assert (ROOT / "onnx_lab" / "py.typed").exists()
    assert "MIT License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
