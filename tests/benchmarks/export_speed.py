"""Measure the exporter on the model zoo and write the figures of the README.

    python tests/benchmarks/export_speed.py [--models mlp,t5] [--peer] [--readme]

Each model runs in a process of its own. All times of one model come from that process: the bare
``torch.export.export`` (the floor), our export, with ``--peer`` also ``torch.onnx.export`` (needs
onnxscript), and the latency of both models in ONNX Runtime, measured in turn. Only ratios mean
something on another machine. ``--readme`` replaces the table between the markers in README.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
RUNS = 3
LATENCY_SECONDS = 6.0


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def latencies(paths: dict[str, str], feeds: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Median milliseconds of a run of each model; the models take turns, so that drift hits all alike."""
    import onnxruntime as ort

    sessions = {}
    for name, path in paths.items():
        options = ort.SessionOptions()
        options.intra_op_num_threads = 2
        options.log_severity_level = 4
        sessions[name] = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    times: dict[str, list[float]] = {name: [] for name in sessions}
    end = time.perf_counter() + LATENCY_SECONDS
    while time.perf_counter() < end or len(times["ours"]) < 30:
        for name, session in sessions.items():
            seconds, _ = timed(lambda run=session, fed=feeds[name]: run.run(None, fed))
            times[name].append(seconds * 1000)
    return {name: statistics.median(found) for name, found in times.items()}


def feeds_of(path: str, tensors: list[Any]) -> dict[str, Any]:
    import onnx

    names = [given.name for given in onnx.load(path, load_external_data=False).graph.input]
    return {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}


def attempt(floor: Callable[[], Any], row: dict[str, Any]) -> None:
    """Warm up the bare capture, so that its own memory is not counted as the export's; it refuses some models."""
    try:
        floor()
    except Exception as error:  # noqa: BLE001  whatever it raises is its result
        row["floor_error"] = type(error).__name__


def peer_shapes(spec: Any) -> Any:
    """Plain strings as torch.export's own dynamic dims."""
    import torch

    if isinstance(spec, str):
        return torch.export.Dim.DYNAMIC
    if isinstance(spec, dict):
        return {key: peer_shapes(value) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return type(spec)(peer_shapes(value) for value in spec)
    return spec


def measure(name: str, peer: bool) -> dict[str, Any]:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    sys.path.insert(0, str(HERE.parent))
    import torch
    from models.zoo import ZOO

    import onnx_lab

    torch.set_num_threads(2)
    case = ZOO[name]()
    floor_shapes = peer_shapes(case.dynamic)
    weights_mb = sum(p.numel() * p.element_size() for p in case.model.parameters()) / 2**20

    def floor() -> Any:
        return torch.export.export(case.model, case.args, case.kwargs, dynamic_shapes=floor_shapes, strict=False)

    def ours() -> Any:
        return onnx_lab.export(case.model, case.args, kwargs=case.kwargs, dynamic_shapes=case.dynamic)

    row: dict[str, Any] = {"model": name, "weights_mb": weights_mb}
    runs: dict[str, list[float]] = {"floor": [], "ours": []}
    for _ in range(5):  # its caches grow by some 10 MB a run at first
        attempt(floor, row)
    before = peak_mb()
    onnx_lab.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    row["modules_mb"] = peak_mb() - before  # the exporter's own modules, loaded once a process
    before = peak_mb()
    result = ours()
    row["peak_mb"] = peak_mb() - before
    for _ in range(RUNS):
        runs["ours"].append(timed(ours)[0])
        if "floor_error" not in row:
            runs["floor"].append(timed(floor)[0])
    row["export_s"] = min(runs["ours"])
    row["floor_s"] = min(runs["floor"]) if runs["floor"] else None
    outcome = result.verify(more=[(case.other_args, case.other_kwargs)])
    row["passes"] = bool(outcome.ok)
    row["nodes"] = len(result.model.graph)
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((case.args, case.kwargs)) if torch.is_tensor(leaf)]
    with tempfile.TemporaryDirectory() as folder:
        paths = {"ours": str(Path(folder) / "ours.onnx")}
        row["save_s"] = timed(lambda: result.save(paths["ours"]))[0]
        if peer:
            paths["peer"] = str(Path(folder) / "peer.onnx")
            row |= peer_export(case, floor_shapes, paths)
        row["latency_ms"] = latencies(paths, {key: feeds_of(path, tensors) for key, path in paths.items()})
    return row


def peer_export(case: Any, shapes: Any, paths: dict[str, str]) -> dict[str, Any]:
    import torch

    def run() -> Any:
        return torch.onnx.export(
            case.model, case.args, kwargs=case.kwargs, dynamic_shapes=shapes, dynamo=True, verbose=False
        )

    try:
        run()
        seconds, program = timed(run)
        program.save(paths["peer"], external_data=True)
        return {"peer_s": seconds}
    except Exception as error:  # noqa: BLE001  whatever the peer raises is its result
        del paths["peer"]
        return {"peer_error": type(error).__name__}


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        (
            "| model | both sizes equal eager | export / bare capture | torch.onnx / bare capture "
            "| memory growth, % of weights | latency, ours / torch.onnx |"
        ),
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            row["model"],
            "yes" if row["passes"] else "NO",
            ratio(row["export_s"], row["floor_s"]) if row["floor_s"] else "bare capture fails",
            ratio(row["peer_s"], row["floor_s"]) if row.get("peer_s") and row["floor_s"] else row.get("peer_error", ""),
            f"{100 * row['peak_mb'] / row['weights_mb']:.0f}" if row["weights_mb"] > 50 else "(small)",
            ratio(row["latency_ms"]["ours"], row["latency_ms"]["peer"]) if "peer" in row["latency_ms"] else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", summary(rows)])


def ratio(a: float, b: float) -> str:
    return f"{a / b:.2f}"


def summary(rows: list[dict[str, Any]]) -> str:
    ours = [row["export_s"] / row["floor_s"] for row in rows if row["floor_s"]]
    text = f"Export time over bare capture, geometric mean: {geometric_mean(ours):.2f} (ours, {len(ours)} models)"
    peers = [row["peer_s"] / row["floor_s"] for row in rows if row.get("peer_s") and row["floor_s"]]
    if peers:
        text += f", {geometric_mean(peers):.2f} (torch.onnx, {len(peers)} models)"
    speed = [row["latency_ms"]["ours"] / row["latency_ms"]["peer"] for row in rows if "peer" in row["latency_ms"]]
    if speed:
        text += f". Latency, ours over torch.onnx: median {statistics.median(speed):.2f} ({len(speed)} models)"
    return text + "."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", help="comma-separated names; default: all")
    parser.add_argument("--peer", action="store_true", help="also measure torch.onnx (needs onnxscript)")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print("ROW " + json.dumps(measure(options.child, options.peer)))
        return
    sys.path.insert(0, str(HERE.parent))
    from models.zoo import ZOO

    rows = []
    for name in options.models.split(",") if options.models else ZOO:
        command = [sys.executable, __file__, "--child", name, *(["--peer"] if options.peer else [])]
        search = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": search}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        line = next((text for text in done.stdout.splitlines() if text.startswith("ROW ")), None)
        if line is None:
            print(f"{name}: {(done.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
            continue
        rows.append(json.loads(line[4:]))
        print({key: round(v, 3) if isinstance(v, float) else v for key, v in rows[-1].items()}, flush=True)
    print(table(rows))
    if options.readme:
        text = README.read_text()
        head, rest = text.split(BEGIN)
        README.write_text(f"{head}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
