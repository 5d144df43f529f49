"""Write the two lists of pinned versions from the environment that runs this script.

``constraints.txt``: everything installed, for development and for CI (``pip install -c``).
``binder/requirements.txt``: what the extras ``lab`` and ``examples`` need, transitively, for Binder.

``make constraints`` makes a fresh environment, installs the package with all extras and runs this.
"""

from __future__ import annotations

from importlib.metadata import distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "onnx-lab"
# They belong to the environment, not to the project.
TOOLS = {"pip", "wheel", PROJECT}
# Binder's image brings a JupyterLab, a server and a hub that fit each other: replacing one of them breaks the rest.
IN_BINDER_IMAGE = {"jupyterlab"}

CONSTRAINTS_HEAD = """\
# Every version that the tests ran with: pip install -c constraints.txt -e '.[lab,test]'
# Written by `make constraints`.
"""
BINDER_HEAD = """\
# What Binder installs: the extras `lab` and `examples` of the package, transitively, but for JupyterLab, which its
# image brings. Written by `make constraints`.
# The CPU build of torch is asked for by name: the default one brings several GB of CUDA, which Binder cannot use.
--extra-index-url https://download.pytorch.org/whl/cpu
"""


def public_version(name: str) -> str:
    """The installed version without the build tag (2.13.0, not 2.13.0+cpu), which only one index may carry."""
    return Version(distribution(name).version).public


def needed(name: str, extras: frozenset[str], without: set[str]) -> set[str]:
    """Names of all distributions that ``name[extras]`` needs here, but for itself and what only ``without`` needs."""
    found: set[str] = set()
    todo = [(name, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        current = todo.pop()
        if current in seen or current[0] in without:
            continue
        seen.add(current)
        found.add(current[0])
        for line in distribution(current[0]).requires or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*current[1], "")):
                todo.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return found - {name}


def main() -> None:
    everything = {canonicalize_name(dist.metadata["Name"]) for dist in distributions()} - TOOLS
    if cuda := sorted(name for name in everything if name.startswith("nvidia-")):
        raise SystemExit(f"torch came as its CUDA build ({cuda[0]} ...): set PIP_EXTRA_INDEX_URL to the CPU index")
    lines = [f"{name}=={public_version(name)}" for name in sorted(everything)]
    (ROOT / "constraints.txt").write_text(CONSTRAINTS_HEAD + "\n".join(lines) + "\n", encoding="utf-8")

    lines = []
    for name in sorted(needed(PROJECT, frozenset({"lab", "examples"}), IN_BINDER_IMAGE)):
        lines.append(f"{name}=={public_version(name)}" + ("+cpu" if name == "torch" else ""))
    (ROOT / "binder" / "requirements.txt").write_text(BINDER_HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
