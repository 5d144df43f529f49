"""cond, while_loop, scan and map: nested, with closures, new tensors inside, dynamic sizes; sizes that data decides."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as map_

from tests.ops.harness import check

WEIGHT = torch.randn(4, 4)
HIGH, LOW = torch.rand(4, 4), -torch.rand(4, 4)


def nested(x, y):
    def positive(x, y):
        return torch.cond(y.sum() > 5, lambda x, y: x @ WEIGHT + y.sum(), lambda x, y: x - 1, (x, y))

    return torch.cond(x.sum() > 0, positive, lambda x, y: x * 2 + torch.ones(4), (x, y))


def counted(n, x):
    zero = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 1.5 + i), (zero, x))


def condition_inside(x):
    def body(i, x):
        return i + 1, torch.cond(i > 2, lambda x: x + 1, lambda x: x * 2, (x,))

    return while_loop(lambda i, x: (i < 5) & (x.sum() < 100), body, (torch.zeros((), dtype=torch.int64), x))


def running(state, xs):
    def step(state, x):
        state = state * 0.5 + x
        return state, state.sin()

    return scan(step, state, xs, dim=0)


def mapped(xs, y):
    return map_(lambda x, y: x.cos() + y, xs, y)


def branches_of_one_size(x):
    return torch.cond(x.shape[0] > 5, lambda x: x[:2], lambda x: x[:2] * 2, (x,))


def counted_by_data(x):
    return x[x > 0], torch.nonzero(x), x.nonzero().shape[0] * x


def sliced_by_data(x, n):
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return x[:k].sum(), x.narrow(0, 0, k)


def masked(x, mask):
    return torch.masked_select(x, mask).sum(), x[mask]


CASES = {
    "nested": (nested, (HIGH, HIGH * 2), [(LOW, HIGH), (HIGH, HIGH * 0.01)], None),
    "nested_dynamic": (
        nested,
        (torch.rand(3, 4), torch.rand(2, 4) * 3),
        [(-torch.rand(5, 4), torch.rand(3, 4))],
        [{0: "a"}, {0: "b"}],
    ),
    "counted": (counted, (torch.tensor(3), torch.randn(2)), [(torch.tensor(n), torch.randn(2)) for n in (0, 7)], None),
    "counted_dynamic": (
        counted, (torch.tensor(3), torch.randn(2)), [(torch.tensor(4), torch.randn(5))], [None, {0: "n"}],
    ),
    "condition_inside": (condition_inside, (torch.randn(3),), [(torch.randn(3) + 50,)], None),
    "scan": (running, (torch.randn(3), torch.randn(5, 3)), [(torch.randn(3), torch.randn(8, 3))], [None, {0: "t"}]),
    "map": (mapped, (torch.randn(5, 3), torch.randn(3)), [(torch.randn(7, 3), torch.randn(3))], [{0: "t"}, None]),
    "branches": (branches_of_one_size, (torch.randn(4, 2),), [(torch.randn(9, 2),)], [{0: "n"}]),
    "counted_by_data": (counted_by_data, (torch.randn(3, 4),), [(torch.randn(6, 4),)], [{0: "n"}]),
    "sliced_by_data": (sliced_by_data, (torch.randn(5), torch.tensor(3)), [(torch.randn(5), torch.tensor(0))], None),
    "masked": (
        masked, (torch.randn(3, 4), torch.rand(3, 4) > 0.5), [(torch.randn(3, 4), torch.zeros(3, 4) > 0)], None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name: str) -> None:
    function, args, again, dynamic = CASES[name]
    check(function, *args, again=again, dynamic=dynamic)


class Stateful(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(3))
        self.norm, self.drop = torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.last.copy_(x.mean(0))
        return self.drop(self.norm(x)) * self.count + self.last


def test_state_and_mixed_modes_keep_their_meaning() -> None:
    model = Stateful().train()
    model.drop.eval()
    import onnx_lab

    result = onnx_lab.export(model, (torch.randn(4, 3),), training="preserve")
    assert result.verify().ok
    assert float(model.count) == 0
    assert model.norm.training
    assert not model.drop.training
