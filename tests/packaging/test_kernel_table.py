"""The table of runtime kernels in the package is that of the runtime which the tests use."""

from __future__ import annotations

import json

import onnxruntime
import pytest

from tests.packaging.kernel_table import TABLE, read_runtime


def test_the_table_is_that_of_the_runtime() -> None:
    table = json.loads(TABLE.read_text())
    if table["onnxruntime"] != onnxruntime.__version__:
        pytest.skip(f"the table was read from onnxruntime {table['onnxruntime']}")
    assert table == json.loads(json.dumps(read_runtime()))
