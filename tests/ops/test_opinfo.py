"""Every operator of PyTorch's database in every element type: ONNX Runtime against eager."""

from __future__ import annotations

import pytest

from tests.ops.cases import KNOWN, case_of
from tests.ops.opinfo import DTYPES, dtypes_of, operators, outcome, samples

# More samples where most models live.
SAMPLES = {"float32": 3, "int64": 2, "bool": 2}


def parameters() -> list[object]:
    found = []
    for name in operators():
        for dtype in dtypes_of(name):
            reason = case_of(name).reason(dtype)
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            found.append(pytest.param(name, dtype, marks=marks, id=f"{name}-{dtype}"))
    return found


@pytest.mark.filterwarnings("ignore")  # eager and the database remark on many samples
@pytest.mark.parametrize(("name", "dtype"), parameters())
def test_operator(name: str, dtype: str) -> None:
    case = case_of(name)
    for sample in samples(name, dtype, SAMPLES.get(dtype, 1)):
        found = outcome(name, sample, tolerance=case.tolerance.get(dtype), order=case.order)
        assert found == "pass" or found.startswith("skip"), f"{found} ({sample.text})"


@pytest.mark.filterwarnings("ignore")  # eager and the database remark on many samples
@pytest.mark.parametrize("name", operators())
def test_opsets(name: str) -> None:
    """What passes at the default opset passes at the oldest, the newest and two between."""
    case, dtypes = case_of(name), dtypes_of(name)
    dtype = next((one for one in ("float32", *dtypes) if one in dtypes), None)
    first = next(iter(samples(name, dtype, 1)), None) if dtype is not None else None
    if first is None or outcome(name, first, order=case.order) != "pass":
        return  # nothing to compare: eager refuses, or a gap of the table
    for opset in (18, 21, 25, 28):
        if opset >= case.since:
            assert outcome(name, first, opset, order=case.order) == "pass", opset


def test_the_table_names_operators_and_types_that_exist() -> None:
    assert not set(KNOWN) - set(operators())
    assert not {dtype for case in KNOWN.values() for dtype in case.gaps} - set(DTYPES)
