"""Every zoo model: exported with dynamic shapes, equal to eager with both input sizes."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
import pytest

import onnx_lab
from onnx_lab.passes.invariants import check_invariants
from tests.models.zoo import ZOO
from tests.models.zoo_more import MORE

pytest.importorskip("transformers")


# The keyword has another name in newer versions of transformers only.
@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", ZOO)
def test_model_equals_eager_at_both_sizes(name: str, tmp_path: Path) -> None:
    case = ZOO[name]()
    result = onnx_lab.export(case.model, case.args, kwargs=case.kwargs, dynamic_shapes=case.dynamic)
    assert not check_invariants(result.model)
    outcome = result.verify(more=[(case.other_args, case.other_kwargs)])
    outcome.raise_on_mismatch()
    path = tmp_path / "model.onnx"
    result.save(path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    asked = set(_dim_names(case.dynamic))
    written = {dim for given in session.get_inputs() for dim in given.shape if isinstance(dim, str)}
    assert written == asked


def _dim_names(spec: object) -> list[str]:
    if isinstance(spec, str):
        return [spec]
    if isinstance(spec, dict):
        return [name for value in spec.values() for name in _dim_names(value)]
    if isinstance(spec, (list, tuple)):
        return [name for value in spec for name in _dim_names(value)]
    return []


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # the libraries' own
@pytest.mark.parametrize("name", MORE)
def test_further_models_equal_eager_at_both_sizes(name: str) -> None:
    pytest.importorskip("diffusers")
    case = MORE[name]()
    result = onnx_lab.export(case.model, case.args, kwargs=case.kwargs, dynamic_shapes=case.dynamic)
    assert not check_invariants(result.model)
    result.verify(more=[(case.other_args, case.other_kwargs)]).raise_on_mismatch()


def test_recurrent_layers_stay_whole() -> None:
    case = ZOO["lstm_tagger"]()
    result = onnx_lab.export(case.model, case.args, dynamic_shapes=case.dynamic)
    types = [node.op_type for node in result.model.graph]
    assert types.count("LSTM") == 2
    assert not {"Loop", "Scan"} & set(types)


def test_transformers_use_the_operators_of_the_opset() -> None:
    case = ZOO["llama_kv_cache"]()
    result = onnx_lab.export(case.model, case.args, dynamic_shapes=case.dynamic, opset_version=23)
    types = {node.op_type for node in result.model.graph}
    assert "Attention" in types
