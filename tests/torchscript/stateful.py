"""Modules that write on themselves, as TorchScript reads them."""

from typing import Dict, List, Optional, Tuple  # noqa: UP035  the types that TorchScript reads

import torch
from torch import Tensor, nn


class Counter(nn.Module):
    """A number and a buffer that is written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.scale = 1.5
        self.on = False
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.scale = self.scale * 0.5
        self.on = not self.on
        self.total += x.sum(0)
        y = x * self.calls * self.scale + self.total
        if self.on:
            y = y + 100
        return y


class Growing(nn.Module):
    """A tensor that is empty at first, as streaming models keep their context."""

    def __init__(self) -> None:
        super().__init__()
        self.context = torch.zeros(0)

    def forward(self, x: Tensor) -> Tensor:
        if not len(self.context):
            self.context = torch.zeros(x.size(0), 2)
        both = torch.cat([self.context, x], 1)
        self.context = both[:, -2:]
        return both.sum(1)


class Cell(nn.Module):
    """An optional pair of tensors."""

    state: Optional[Tuple[Tensor, Tensor]]

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)
        self.state = None

    def forward(self, x: Tensor) -> Tensor:
        state = self.state
        if state is None:
            state = (torch.zeros(x.size(0), 4), torch.zeros(x.size(0), 4))
        made = self.cell(x, state)
        self.state = made
        return made[0]


class Containers(nn.Module):
    """A list and a dict of fixed size."""

    def __init__(self) -> None:
        super().__init__()
        self.last: List[Tensor] = [torch.zeros(2), torch.ones(2)]
        self.sums: Dict[str, Tensor] = {"a": torch.zeros(())}

    def forward(self, x: Tensor) -> Tensor:
        self.last[0], self.last[1] = self.last[1], x
        self.sums["a"] = self.sums["a"] + x.sum()
        return self.last[0] + self.last[1] + self.sums["a"]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.n += 1
        return x * self.n


class Outer(nn.Module):
    """State of a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + 1


STATEFUL: list[tuple[type[nn.Module], tuple[int, ...]]] = [
    (Counter, (2, 3)),
    (Growing, (2, 5)),
    (Cell, (2, 3)),
    (Containers, (2,)),
    (Outer, (2,)),
]
