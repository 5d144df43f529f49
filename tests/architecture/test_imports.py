"""The import arrows of the architecture, walked in the source."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "onnx_lab"

# package -> what it may import besides itself and the standard library.
ALLOWED: dict[str, set[str]] = {
    "errors": {"onnx_lab.program"},
    "opsets": {"onnx_lab.errors"},
    "extras": {"onnx_lab.errors"},
    "program": {"onnx_lab.errors"},
    "capture": {"onnx_lab.program", "onnx_lab.errors", "torch", "sympy"},
    "lower": {"onnx_lab.program", "onnx_lab.errors", "onnx", "onnx_ir", "numpy"},
    "ops": {
        "onnx_lab.lower.registry", "onnx_lab.lower.context", "onnx_lab.lower.complex", "onnx_lab.program", "onnx_ir",
        "numpy",
    },
    "passes": {"onnx_lab.errors", "onnx_ir"},
    "saving": {"onnx_lab.errors", "onnx_ir", "onnx", "numpy"},
    "verify": {
        "onnx_lab.program", "onnx_lab.errors", "onnx_lab.saving", "onnx_ir", "onnx", "onnxruntime", "torch",
        "numpy", "pandas",
    },
    "view": {"onnx_lab.program", "onnx_lab.errors", "onnx_lab.extras", "onnx_ir", "pandas", "numpy"},
    "notebook": {
        "onnx_lab", "onnx_lab.api", "onnx_lab.result", "onnx_lab.view", "onnx_lab.errors", "onnx_lab.opsets",
        "onnx_lab.operators", "IPython", "ipywidgets", "anywidget", "traitlets", "torch", "pandas",
    },
}  # fmt: skip
# What the road itself may not reach for, whatever the package.
FORBIDDEN = {"torch.onnx", "onnxscript"}
# One file each may do a little more, with its reason.
EXTRA = {
    "capture/trees.py": {"transformers"},  # only when the user has imported it already
    "ops/resize.py": {"onnx_lab.ops.resize_weights"},  # one family in two files
    "lower/decompose.py": {
        "onnx_lab.capture.recorder",
        "onnx_lab.capture.functionalize",
        "onnx_lab.capture.schema",
        "torch",
    },  # one call, traced
    "ops/distributions.py": {"onnx_lab.ops.random"},  # drawn again until accepted
    "ops/dropout.py": {"onnx_lab.ops.random"},  # noise
    "ops/random_complex.py": {"onnx_lab.ops.random"},  # two parts
    "ops/eigen.py": {"onnx_lab.ops.jacobi"},  # rotations
    "ops/singular.py": {"onnx_lab.ops.jacobi", "onnx_lab.ops.eigen"},  # rotations
    "ops/fourier.py": {"onnx_lab.ops.spectral"},  # the kernels that torch.fft's functions share
    "ops/bessel.py": {"onnx_lab.ops.bessel_series", "onnx_lab.ops.special"},  # a table; evaluation of series
    "ops/gamma.py": {"onnx_lab.ops.special"},  # in double precision and back
    "ops/special.py": {"onnx_lab.lower.double_precision"},  # the series of erfc
    "ops/householder.py": {"onnx_lab.ops.factorization"},  # loops over columns
    "ops/order.py": {"onnx_lab.ops.running"},  # runs of equal elements
    "ops/scattering.py": {"onnx_lab.ops.indexing"},  # writes use the plan of reads
}
TOP = {"__init__", "api", "result", "operators"}


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, roots: set[str]) -> bool:
    return any(name == root or name.startswith(root + ".") for root in roots)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    relative = str(path.relative_to(ROOT))
    package = relative.split("/", maxsplit=1)[0].removesuffix(".py")
    for name in imported(path):
        assert not within(name, FORBIDDEN), f"{relative} imports {name}"
        if package in TOP:
            assert not within(name, {"onnx_lab.notebook", "IPython", "ipywidgets", "anywidget"}), name
            continue
        if name.split(".")[0] in sys.stdlib_module_names or name.startswith("__future__"):
            continue
        allowed = ALLOWED[package] | EXTRA.get(relative, set()) | {f"onnx_lab.{package}"}
        if package == "ops":
            allowed -= {"onnx_lab.ops"}
            allowed |= EXTRA.get(relative, set())
        assert within(name, allowed), f"{relative} may not import {name}"


def test_every_family_imports_no_private_name_of_another() -> None:
    for path in (ROOT / "ops").glob("*.py"):
        for name in imported(path):
            if name.startswith("onnx_lab.ops."):
                assert not name.rpartition(".")[2].startswith("_"), f"{path.name} imports {name}"


def test_files_stay_small() -> None:
    long = {str(path.relative_to(ROOT)): lines for path in files() if (lines := path.read_text().count("\n")) > 500}
    assert not long


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT.parent)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment, check=False
    )


def test_importing_the_package_is_cheap() -> None:
    heavy = ("torch", "onnx", "onnx_ir", "onnxruntime", "pandas", "IPython", "ipywidgets", "numpy")
    done = run(f"import sys, onnx_lab; print([name for name in {heavy!r} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


CORE = """
import sys
class Absent:
    # Finds what the real finders find, but for the packages that shall look as if not installed.
    def __init__(self, finders): self.finders = finders
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('IPython', 'pandas', 'ipywidgets', 'anywidget', 'graphviz', 'onnxscript'):
            return None
        found = (one.find_spec(name, path, target) for one in self.finders if hasattr(one, 'find_spec'))
        return next((spec for spec in found if spec is not None), None)
sys.meta_path[:] = [Absent(list(sys.meta_path))]
import torch, onnx_lab
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
result = onnx_lab.export(model, (torch.randn(2, 4),), dynamic_shapes=({0: "batch"},))
result.save("PATH")
print(result.verify().ok, "torch.onnx._internal.exporter._core" in sys.modules)
print(result.summary())
for lab_only in (lambda: onnx_lab.explorer, result.ops, result.graph().explore):
    try:
        lab_only()
    except onnx_lab.MissingExtraError as error:
        print("needs", error.hint)
"""


def test_the_core_exports_without_notebook_packages(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    done = run(CORE.replace("PATH", str(path)))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "True False"
    assert path.stat().st_size > 0
    assert done.stdout.count('needs pip install "onnx_lab[lab]"') == 3
