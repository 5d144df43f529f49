"""What is written is what the model holds, in one file or two, without copies in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from onnx.external_data_helper import uses_external_data

from onnx_lab.errors import SaveError
from onnx_lab.saving import model_proto, save_model
from tests.saving.models import mixed_weights, weights_model


def contents(proto: onnx.ModelProto) -> dict[str, tuple[int, list[int], bytes]]:
    return {one.name: (one.data_type, list(one.dims), bytes(one.raw_data)) for one in proto.graph.initializer}


@pytest.mark.parametrize("external", [False, True])
def test_every_kind_of_weight_is_written_as_it_is(tmp_path: Path, external: bool) -> None:
    model = weights_model(mixed_weights())
    expected = ir.to_proto(model)
    files = save_model(model, tmp_path / "m.onnx", external_data=external)
    assert sorted(tmp_path.iterdir()) == sorted(files)
    onnx.checker.check_model(str(files[0]), full_check=True)
    loaded = onnx.load(files[0])
    want = {
        name: (kind, dims, ir.serde.TensorProtoTensor(one).tobytes())
        for one in expected.graph.initializer
        for name, kind, dims in [(one.name, one.data_type, list(one.dims))]
    }
    assert contents(loaded) == want
    assert contents(model_proto(model)) == want
    for field in ("node", "input", "output"):
        assert list(getattr(loaded.graph, field)) == list(getattr(expected.graph, field))
    assert [one.key for one in loaded.metadata_props] == ["key"]
    assert ir.to_proto(model) == expected


@pytest.mark.parametrize("external", [False, True])
def test_the_runtime_reads_the_file(tmp_path: Path, external: bool) -> None:
    weights = {name: one for name, one in mixed_weights().items() if name not in ("int4", "float8")}
    files = save_model(weights_model(weights), tmp_path / "m.onnx", external_data=external)
    session = ort.InferenceSession(files[0], providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    found = session.run_with_ort_values(names, {"x": ort.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))})
    for name, value in list(zip(names, found, strict=True))[1:]:
        torch.testing.assert_close(
            torch.from_dlpack(value._get_c_value().to_dlpack()), weights[name.removesuffix("_out")], rtol=0, atol=0
        )


def test_bodies_and_functions_are_kept(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
    g (float[2] x, bool c) => (float[2] y) <float[2] w = {1.0, 2.0}>
    { d = own.Twice(x)  y = If (c) <then_branch = t () => (float[2] p) { p = Add(d, w) },
                                    else_branch = e () => (float[2] q) { q = Mul(d, w) }> }
    <domain: "own", opset_import: ["" : 21]> Twice (a) => (b) { b = Add(a, a) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    [file] = save_model(model, tmp_path / "m.onnx")
    onnx.checker.check_model(str(file), full_check=True)
    assert onnx.load(file) == ir.to_proto(model)


def test_external_weights_are_aligned_and_tied_ones_written_once(tmp_path: Path) -> None:
    weight = torch.randn(1000)
    model = weights_model({"a": weight, "b": weight.view(10, 100), "c": torch.randn(1000), "d": torch.randn(4)})
    _, data = save_model(model, tmp_path / "m.onnx", external_data=True)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    entries = {one.name: {entry.key: entry.value for entry in one.external_data} for one in proto.graph.initializer}
    assert entries["a"] == entries["b"] == {"location": "m.onnx.data", "offset": "0", "length": "4000"}
    assert entries["c"]["offset"] == "4096"
    assert not any(uses_external_data(one) for one in proto.graph.initializer if one.name == "d")
    assert data.stat().st_size == 4096 + 4000


def test_size_decides_when_nothing_is_asked(tmp_path: Path) -> None:
    model = weights_model({"w": torch.randn(1000)})
    assert len(save_model(model, tmp_path / "m.onnx")) == 1
    size = (tmp_path / "m.onnx").stat().st_size
    assert len(save_model(model, tmp_path / "m.onnx", size_limit=size)) == 1
    assert len(save_model(model, tmp_path / "n.onnx", size_limit=size - 1)) == 2
    with pytest.raises(SaveError, match="a protobuf file ends at 2 GiB"):
        save_model(model, tmp_path / "o.onnx", external_data=False, size_limit=size - 1)
    assert not (tmp_path / "o.onnx").exists()


def test_weights_without_values_are_named(tmp_path: Path) -> None:
    model = weights_model({"w": torch.empty(1000, device="meta")})
    with pytest.raises(SaveError, match="weight w has no values"):
        save_model(model, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


STREAMED = """
import resource, sys, torch
from tests.saving.models import weights_model
from onnx_lab.saving import save_model
square = torch.ones(5000, 5000)
weights = {"a": square, "b": torch.ones(5000, 5000), "c": torch.ones(1, 5000, 5000).transpose(1, 2)}
model = weights_model(weights)
save_model(weights_model({"w": torch.ones(10000)}), "warm.onnx")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save_model(model, "m.onnx", external_data=sys.argv[1] == "True")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
@pytest.mark.parametrize("external", [False, True])
def test_saving_300_mb_takes_a_few_mb_of_memory(tmp_path: Path, external: bool) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, str(external)], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert int(done.stdout) < 30 * 1024
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) > 300_000_000
