"""Which element types the runtime's CPU kernels take, as ONNX Runtime itself tells: ``python ... --write``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[2] / "onnx_lab" / "lower" / "runtime_kernels.json"
NEWEST = 2**31 - 1


def read_runtime() -> dict[str, Any]:
    """Operator -> [[first opset, last opset or null, {type variable: [element types]}], ...]."""
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    found: dict[str, dict[tuple[int, int], dict[str, set[str]]]] = {}
    for kernel in get_all_opkernel_def():
        if kernel.domain != "" or kernel.provider != "CPUExecutionProvider":
            continue
        ranges = found.setdefault(kernel.op_name, {}).setdefault(tuple(kernel.version_range), {})
        for variable, types in kernel.type_constraints.items():
            names = (str(one)[len("tensor(") : -1] for one in types if str(one).startswith("tensor("))
            ranges.setdefault(variable, set()).update(names)
    operators = {
        name: [
            [
                first,
                None if last == NEWEST else last,
                {variable: sorted(types) for variable, types in sorted(one.items())},
            ]
            for (first, last), one in sorted(ranges.items())
            if last >= 18 and one
        ]
        for name, ranges in sorted(found.items())
    }
    return {
        "onnxruntime": onnxruntime.__version__,
        "operators": {name: rows for name, rows in operators.items() if rows},
    }


def as_text(table: dict[str, Any]) -> str:
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in table["operators"].items())
    return f'{{"onnxruntime": {json.dumps(table["onnxruntime"])},\n"operators": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the table in the package")
    if parser.parse_args().write:
        TABLE.write_text(as_text(read_runtime()))
    else:
        print(as_text(read_runtime()))
