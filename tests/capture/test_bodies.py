"""Writes inside branches and loops to outer values: the pure graph gives what the graph with writes gave."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from onnx_lab.capture.functionalize import functionalize
from onnx_lab.capture.schema import aliasing
from onnx_lab.errors import MutationError
from onnx_lab.program.graph import Call, CapturedGraph, GraphInput, GraphOutput, Ref, Region
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import ScalarSpec, Spec, TensorSpec
from onnx_lab.verify.reference import run_calls

MATRIX, ROW, FLAG = TensorSpec("float32", (3, 4)), TensorSpec("float32", (4,)), TensorSpec("bool", ())
COUNT = ScalarSpec("int")


def call(name: str, key: str, *args: Any, spec: Spec = MATRIX, regions: tuple[Region, ...] = ()) -> Call:
    return Call(name, OpKey(key), tuple(args), {}, spec, regions=regions)


def row(name: str, of: str, index: Any) -> Call:
    return call(name, "aten::select.int", Ref(of), 0, index, spec=ROW)


def program(calls: list[Call], outputs: list[str]) -> CapturedGraph:
    """x is a fresh tensor made from the input; flag chooses a branch."""
    start = [call("x", "aten::clone", Ref("given"))]
    inputs = [GraphInput("given", MATRIX), GraphInput("flag", FLAG)]
    return CapturedGraph("hand-made", inputs, [GraphOutput(f"o{n}", Ref(n)) for n in outputs], {}, start + calls)


def branch(name: str, yes: list[Call], no: list[Call], outputs: tuple[str, ...] = (), other: Any = None) -> Call:
    regions = (
        Region([], yes, [Ref(one) for one in outputs]),
        Region([], no, [Ref(one) for one in (outputs if other is None else other)]),
    )
    return call(name, "higher_order::cond", Ref("flag"), [], spec=(MATRIX,) * len(outputs), regions=regions)


def loop(name: str, trips: int, body: list[Call], init: list[Any], states: list[str], outputs: list[Any]) -> Call:
    params: list[tuple[str, Spec]] = [(f"{name}_i", COUNT), *((state, MATRIX) for state in states)]
    regions = (Region(params, body, [True, *outputs]),)
    return call(name, "script::loop", trips, True, init, spec=(MATRIX,) * len(init), regions=regions)


def pick(name: str, of: str, index: int = 0) -> Call:
    return call(name, "_operator::getitem", Ref(of), index)


def values(graph: CapturedGraph, flag: bool) -> list[torch.Tensor]:
    """The outputs at the end: the graph with writes changes the very tensors that it made."""
    made: dict[str, Any] = {"given": torch.arange(12.0).reshape(3, 4), "flag": torch.tensor(flag)}
    # Every value is kept, so that later writes show in it.
    for one, value in run_calls(graph, {name: made[name] for name in ("given", "flag")}):
        made[one.name] = value
    return [made[output.value.name] for output in graph.outputs]


def one_side_writes() -> CapturedGraph:
    yes = [row("r", "x", 1), call("w", "aten::mul_.Tensor", Ref("r"), 5.0, spec=ROW)]
    return program([branch("b", yes, []), call("y", "aten::add.Tensor", Ref("x"), 1.0)], ["y", "x"])


def both_sides_write() -> CapturedGraph:
    yes = [call("w", "aten::add_.Tensor", Ref("x"), 2.0), call("s", "aten::mul.Tensor", Ref("x"), 3.0)]
    no = [call("v", "aten::relu_", Ref("x")), call("t", "aten::neg", Ref("x"))]
    calls = [branch("b", yes, no, ("s",), ("t",)), pick("p", "b")]
    return program([*calls, call("y", "aten::add.Tensor", Ref("x"), Ref("p"))], ["y", "x", "p"])


def stale_view_outside() -> CapturedGraph:
    calls = [row("r", "x", 2), branch("b", [call("w", "aten::mul_.Tensor", Ref("x"), 2.0)], [])]
    return program([*calls, call("y", "aten::add.Tensor", Ref("r"), 1.0, spec=ROW)], ["y"])


def stale_view_inside() -> CapturedGraph:
    """The view was made before a write, and is read two bodies deeper."""
    calls = [row("r", "x", 2), call("w", "aten::mul_.Tensor", Ref("x"), 2.0)]
    deep = branch("c", [call("s", "aten::add.Tensor", Ref("x"), Ref("r"))], [], ("s",), ("x",))
    calls += [branch("b", [deep, pick("q", "c")], [call("u", "aten::neg", Ref("x"))], ("q",), ("u",)), pick("p", "b")]
    return program(calls, ["p"])


def loop_fills_rows() -> CapturedGraph:
    body = [row("r", "x", Ref("l_i")), call("w", "aten::fill_.Scalar", Ref("r"), 7.0, spec=ROW)]
    return program([loop("l", 2, body, [], [], [])], ["x"])


def loop_carries_and_writes() -> CapturedGraph:
    body = [
        row("r", "x", Ref("l_i")),
        call("w", "aten::add_.Tensor", Ref("r"), 1.0, spec=ROW),
        call("n", "aten::add.Tensor", Ref("h"), Ref("x")),
    ]
    start = call("h0", "aten::zeros_like", Ref("x"))
    return program([start, loop("l", 3, body, [Ref("h0")], ["h"], [Ref("n")]), pick("p", "l")], ["p", "x"])


def branch_in_loop() -> CapturedGraph:
    write = [row("r", "x", Ref("l_i")), call("w", "aten::mul_.Tensor", Ref("r"), -1.0, spec=ROW)]
    return program([loop("l", 3, [branch("b", write, [])], [], [], [])], ["x"])


PROGRAMS = [
    one_side_writes, both_sides_write, stale_view_outside, stale_view_inside, loop_fills_rows,
    loop_carries_and_writes, branch_in_loop,
]  # fmt: skip


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_equal_to_the_graph_with_writes(make: Any, flag: bool) -> None:
    graph = make()
    pure = copy.deepcopy(graph)
    functionalize(pure)
    assert not any(aliasing(one.key).writes for one in pure.all_calls())
    for expected, actual in zip(values(graph, flag), values(pure, flag), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def maybe_the_same() -> list[Call]:
    """p is x itself on one path, and a tensor of its own on the other."""
    return [branch("b", [], [call("u", "aten::neg", Ref("x"))], ("x",), ("u",)), pick("p", "b")]


def test_a_result_that_may_be_an_outer_value_is_followed_while_the_other_is_not_read() -> None:
    graph = program([*maybe_the_same(), call("w", "aten::add_.Tensor", Ref("p"), 1.0)], ["p"])
    pure = copy.deepcopy(graph)
    functionalize(pure)
    for flag in (True, False):
        assert torch.equal(values(graph, flag)[0], values(pure, flag)[0])


@pytest.mark.parametrize(("written", "read"), [("p", "x"), ("x", "p")])
def test_reading_what_may_have_been_written_is_refused(written: str, read: str) -> None:
    calls = [*maybe_the_same(), call("w", "aten::add_.Tensor", Ref(written), 1.0)]
    with pytest.raises(MutationError, match="same memory on one path"):
        functionalize(program([*calls, call("y", "aten::neg", Ref(read))], ["y"]))


def test_a_shape_changed_inside_a_body_is_refused() -> None:
    yes = [call("w", "aten::unsqueeze_", Ref("x"), 0, spec=TensorSpec("float32", (1, 3, 4)))]
    with pytest.raises(MutationError, match="changes the shape of x"):
        functionalize(program([branch("b", yes, [])], ["x"]))


def test_a_write_in_a_body_that_cannot_hand_it_out_is_refused() -> None:
    body = Region([("s", ROW)], [call("w", "aten::add_.Tensor", Ref("x"), 1.0)], [Ref("s")])
    scan = call("m", "higher_order::map_impl", [Ref("x")], [], spec=(MATRIX,), regions=(body,))
    with pytest.raises(MutationError, match="writes to x"):
        functionalize(program([scan], ["x"]))
