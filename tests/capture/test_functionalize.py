"""Writes through views become values: bit-equal to eager, in the original order of names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from onnx_lab.capture.functionalize import functionalize
from onnx_lab.capture.schema import aliasing, functional_key
from onnx_lab.capture.strategies import capture
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import CapturedGraph
from onnx_lab.verify.reference import run_calls
from tests.ops.harness import check


class Program(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x.clone())


def fill_through_view(x):
    x.view(-1, 2).masked_fill_(x.reshape(-1, 2) > 0, 7.0)
    return x


def view_of_view(x):
    x.t()[0].add_(1.0)
    return x


def stale_view(x):
    y = x[1:]
    x.mul_(2)
    return x, y + 1


def steps(x):
    x[1:3, ::2] += 2
    return x


def chunks(x):
    a, b = x.chunk(2, 1)
    a.mul_(b)
    return x, a


def splits(x):
    for number, part in enumerate(x.split([1, 3], 0)):
        part.add_(number + 1)
    return x


def unbound(x):
    for number, row in enumerate(x.unbind(0)):
        row.mul_(number)
    return x


def mask(x):
    x[x[:, 0] > 0] = 3
    return x


def diagonal(x):
    x.diagonal().fill_(0)
    return x


def permuted(x):
    x.permute(1, 0)[2:].sub_(5)
    return x


def squeezed(x):
    x.unsqueeze(0).squeeze(0).exp_()
    return x


def narrow(x):
    x.narrow(1, 1, 2).zero_()
    return x


def compare_in_place(x):
    x.gt_(0)
    return x


def twice(x):
    y = x.view(16)
    y[:4] = 1
    x[3] = y[:4] + 1
    return x, y


def copied(x):
    x[0].copy_(x[1].to(torch.float64))
    return x


def out_argument(x):
    out = torch.empty(4, 4)
    torch.add(x, 1, out=out)
    return out


PROGRAMS = [
    fill_through_view, view_of_view, stale_view, steps, chunks, splits, unbound, mask, diagonal, permuted, squeezed,
    narrow, compare_in_place, twice, copied, out_argument,
]  # fmt: skip


def functional(function: Callable[..., Any], x: torch.Tensor) -> tuple[CapturedGraph, list[torch.Tensor]]:
    captured = capture(Program(function), (x,))
    functionalize(captured.graph)
    values = {name: weight.tensor for name, weight in captured.graph.weights.items()} | {"x": x}
    wanted = [output.value.name for output in captured.graph.outputs]
    values |= {call.name: value for call, value in run_calls(captured.graph, {"x": x})}
    return captured.graph, [values[name] for name in wanted]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_equals_eager_without_any_write(function: Callable[..., Any]) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    graph, values = functional(function, x)
    expected = torch.utils._pytree.tree_leaves(Program(function)(x))
    assert not [call.key for call in graph.all_calls() if aliasing(call.key).writes]
    assert torch.equal(x, before)
    for got, want in zip(values, expected, strict=True):
        assert torch.equal(got, want)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(x.sum(0))
        return x + self.seen


def test_a_written_buffer_is_told_as_state() -> None:
    captured = capture(Counter(), (torch.ones(3, 2),))
    functionalize(captured.graph)
    assert [one.target for one in captured.graph.state_writes] == ["seen"]


def test_a_written_input_is_noted() -> None:
    class Writes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x += 1
            return x * 2

    captured = capture(Writes(), (torch.ones(3),))
    functionalize(captured.graph)
    assert any("writes to its input x" in note for note in captured.graph.notes)


def test_storage_changes_are_refused_with_the_line() -> None:
    def grow(x):
        x.resize_(2, 2)
        return x

    with pytest.raises(CaptureError) as caught:
        functional(grow, torch.randn(4, 4))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("key", "pure"),
    [
        ("aten::add_.Tensor", "aten::add.Tensor"),
        ("aten::masked_fill_.Scalar", "aten::masked_fill.Scalar"),
        ("aten::copy_", "aten::copy"),
        ("aten::zero_", "aten::zero"),
        ("aten::add.out", "aten::add.Tensor"),
    ],
)
def test_functional_key(key: str, pure: str) -> None:
    assert functional_key(key) == pure


def test_in_place_changes_of_shape_move_the_name() -> None:
    def unsqueezed(x):
        y = x.clone()
        y.unsqueeze_(0)
        y.add_(1)
        z = y.squeeze_(0)
        z.mul_(2)
        return y, z

    def transposed(x):
        y = x.clone()
        row = y[0]
        y.t_()
        row.mul_(3)
        y[1] = 7
        return y, row

    for function in (unsqueezed, transposed):
        check(function, torch.randn(3, 4))


def test_an_augmented_assignment_writes_once() -> None:
    def augmented(x):
        y = x.clone()
        y[..., ::2] *= 2
        y[1:][0] += 1
        y[0] -= y[0]
        return y

    result = check(augmented, torch.randn(3, 4))
    assert sum(node.op_type == "ScatterElements" for node in result.model.graph) == 1
