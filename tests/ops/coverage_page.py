"""Write COVERAGE.md: every operator of PyTorch's database by element type and opset, and why not.

    python tests/ops/coverage_page.py [--samples 2]

It takes some minutes: each sample is lowered, run in ONNX Runtime and compared with eager.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import onnxruntime  # noqa: E402  after the checkout is on the path
import torch  # noqa: E402  after the checkout is on the path

from onnx_lab.opsets import DEFAULT, NEWEST, OLDEST  # noqa: E402  after the checkout is on the path
from tests.ops.cases import case_of  # noqa: E402  after the checkout is on the path
from tests.ops.opinfo import DTYPES, dtypes_of, operators, outcome, samples  # noqa: E402  after the checkout is on the path

PAGE = Path(__file__).parent / "COVERAGE.md"
MARKS = {"pass": "✓", "skip": "·", "": ""}


def cell(name: str, dtype: str, count: int) -> str:
    """``✓``, ``·`` (eager refuses every sample), or the stage that fails."""
    case = case_of(name)
    found = []
    for sample in samples(name, dtype, count):
        result = outcome(name, sample, tolerance=case.tolerance.get(dtype), order=case.order)
        found.append(result.split(":")[0])
    worst = next((one for one in found if one not in MARKS), "pass" if "pass" in found else "skip")
    return MARKS.get(worst, worst)


def opsets(name: str) -> str:
    """The opsets at which the first sample does not pass, of those that can be written."""
    dtypes = dtypes_of(name)
    if not dtypes:
        return ""
    dtype = "float32" if "float32" in dtypes else dtypes[0]
    first = next(iter(samples(name, dtype, 1)), None)
    if first is None or outcome(name, first) != "pass":
        return ""
    every = [opset for opset in range(OLDEST, NEWEST + 1) if opset != DEFAULT]
    return ", ".join(str(opset) for opset in every if outcome(name, first, opset=opset) != "pass")


def row(name: str, count: int) -> tuple[list[str], list[str]]:
    taken = dtypes_of(name)
    cells = [cell(name, dtype, count) if dtype in taken else "" for dtype in DTYPES]
    reasons = sorted({reason for dtype in taken if (reason := case_of(name).reason(dtype))})
    return cells, [name, *cells, opsets(name), "; ".join(reasons)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    totals: dict[str, Counter[str]] = {dtype: Counter() for dtype in DTYPES}
    lines = []
    for name in operators():
        cells, texts = row(name, options.samples)
        for dtype, mark in zip(DTYPES, cells, strict=True):
            totals[dtype][mark or "not taken"] += 1
        lines.append("| " + " | ".join(texts) + " |")
    head = ["operator", *DTYPES, "not at opset", "why"]
    summary = [
        f"| {dtype} | {count['✓']} | {sum(n for mark, n in count.items() if mark not in ('✓', '·', 'not taken'))} |"
        for dtype, count in totals.items()
    ]
    text = f"""# Operators

PyTorch {torch.__version__.split("+")[0]}, ONNX Runtime {onnxruntime.__version__}, opset {DEFAULT} unless said
otherwise; written by `python tests/ops/coverage_page.py`. Each ✓ is {options.samples} samples of PyTorch's own operator
database, equal to eager in shape, type and values. `·`: eager itself refuses; empty: PyTorch does not take the type.

| type | pass | do not |
|---|---|---|
{chr(10).join(summary)}

| {" | ".join(head)} |
|{"---|" * len(head)}
{chr(10).join(lines)}
"""
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
