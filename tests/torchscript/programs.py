"""Scripted programs that are compared with eager PyTorch at several sizes, one class each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple  # noqa: UP035  the types that TorchScript reads

import torch
from torch import Tensor, nn
from torch.nn import functional

# TorchScript reads annotations as they stand in the source: List and Optional, not list and "| None".


@dataclass(frozen=True)
class Program:
    """A module with its inputs at the export, dynamic dims, and further inputs."""

    module: type[nn.Module]
    inputs: tuple[Any, ...]
    dynamic: Any
    more: tuple[tuple[Any, ...], ...]


PROGRAMS: list[Program] = []


def program(*inputs: Any, dynamic: Any = None, more: tuple[tuple[Any, ...], ...] = ()) -> Callable[[type], type]:
    def add(module: type) -> type:
        PROGRAMS.append(Program(module, inputs, dynamic, more))
        return module

    return add


_generator = torch.Generator().manual_seed(1)


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_generator)


ROWS: Any = ({0: "rows"},)


# -- branches ---------------------------------------------------------------------------------------


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (-rows(2, 4).abs(),), (rows(1, 4).abs(),)))
class BranchOnData(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            y = x * 2
        else:
            y = x - 1
        return y


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(1, 4).abs(),), (-rows(1, 4).abs(),)))
class EarlyReturns(nn.Module):
    def forward(self, x):
        if x.size(0) > 4:
            return x.sum(0)
        if bool(x[0, 0] > 0):
            return x.mean(0)
        return x.max(0)[0]


@program(rows(3, 4), more=((rows(3, 4),), (-rows(3, 4).abs(),)))
class NestedBranches(nn.Module):
    def forward(self, x):
        out = x
        if bool(x[0, 0] > 0):
            if bool(x[0, 1] > 0):
                out = out + 1
            elif bool(x[0, 2] > 0):
                out = out * 3
        else:
            out = -out
        return out


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (-rows(5, 4).abs(),)))
class WritesInBranch(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[:, 1:3] = 0
        y[0] += 1
        if bool(x[0, 0] > 0):
            y[:, 0] *= 2
        return y


@program(rows(4, 4), more=((-rows(4, 4).abs(),), (rows(4, 4).abs(),)))
class DictInBranch(nn.Module):
    def forward(self, x):
        parts: Dict[str, Tensor] = {}
        for key in ["a", "b"]:
            parts[key] = x * 2
        if bool(x.sum() > 0):
            parts["a"] = x + 1
        out = torch.zeros_like(x)
        for value in parts.values():
            out = out + value
        if "a" in parts:
            out = out * 2
        return out


@program(rows(3, 4), more=((-rows(3, 4).abs(),), (rows(3, 4).abs(),)))
class ListsOfBothSides(nn.Module):
    def forward(self, x):
        items: List[Tensor] = [x]
        if bool(x.sum() > 0):
            items.append(x * 2)
            items.append(x * 3)
        else:
            items.append(-x)
        return torch.cat(items), len(items)


@program(rows(3, 4), more=((-rows(3, 4).abs(),), (rows(3, 4).abs(),)))
class OptionalOfBranch(nn.Module):
    def forward(self, x):
        extra: Optional[Tensor] = None
        if bool(x.sum() > 0):
            extra = x * 2
        if extra is not None:
            x = x + extra
        return x


# -- loops ------------------------------------------------------------------------------------------


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(1, 4),), (rows(0, 4),)))
class LoopOverRows(nn.Module):
    def forward(self, x):
        h = torch.zeros(4)
        for i in range(x.size(0)):
            h = torch.tanh(h + x[i])
        return h


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(1, 4),)))
class AppendsAndStacks(nn.Module):
    def forward(self, x):
        out: List[Tensor] = []
        h = torch.zeros(4)
        for i in range(x.size(0)):
            h = torch.tanh(h + x[i])
            out.append(h)
        return torch.stack(out)


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(9, 4),)))
class BreakAndContinue(nn.Module):
    def forward(self, x):
        total = torch.zeros(4)
        n = 0
        for i in range(x.size(0)):
            if bool(x[i, 0] < -1):
                continue
            if n >= 3:
                break
            total = total + x[i]
            n += 1
        return total, n


@program(torch.tensor(17), more=((torch.tensor(27),), (torch.tensor(1),)))
class Collatz(nn.Module):
    def forward(self, n):
        k = int(n)
        count = 0
        while k != 1:
            if k % 2 == 0:
                k = k // 2
            else:
                k = 3 * k + 1
            count += 1
        return torch.tensor(count)


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(8, 4),)))
class OptionalState(nn.Module):
    def forward(self, x):
        h: Optional[Tensor] = None
        for i in range(x.size(0)):
            if h is None:
                h = x[i]
            else:
                h = h * 0.5 + x[i]
        assert h is not None
        return h


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(8, 4),)))
class WritesRows(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        for i in range(x.size(0)):
            out[i] = x[i] * i
        return out


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(2, 4),)))
class NestedLoops(nn.Module):
    def forward(self, x):
        a = torch.zeros(1)
        for i in range(x.size(0)):
            for j in range(i):
                if bool(x[i, 0] > x[j, 0]):
                    a = a + x[i, 1] * x[j, 2]
        return a


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),),))
class WhileOnTensorAndCount(nn.Module):
    def forward(self, x):
        i = 0
        while bool(x.norm() > 0.1) and i < 20:
            x = x * 0.5
            i += 1
        return x, i


@program(
    rows(5, 4),
    torch.tensor([2, 0, 3]),
    dynamic=({0: "total"}, {0: "count"}),
    more=((rows(7, 4), torch.tensor([1, 1, 5, 0])),),
)
class RaggedSums(nn.Module):
    def forward(self, x, lengths):
        outs: List[Tensor] = []
        start = 0
        for i in range(lengths.size(0)):
            n = int(lengths[i])
            outs.append(x[start : start + n].sum(0))
            start += n
        return torch.stack(outs)


@program(torch.tensor([3, 1, 2]), dynamic=({0: "n"},), more=((torch.tensor([5, 4, 9, 1]),),))
class ListOfInts(nn.Module):
    def forward(self, x):
        items: List[int] = []
        for i in range(x.size(0)):
            items.append(int(x[i]) * 2)
        total = 0
        for value in items:
            total += value
        return torch.tensor(total), len(items)


@program(rows(3, 4), dynamic=ROWS, more=((rows(7, 4),),))
class PopsAndIndexes(nn.Module):
    def forward(self, x):
        items: List[Tensor] = []
        for i in range(x.size(0)):
            items.append(x[i])
        last = items.pop()
        first = items[0]
        items[0] = first * 10
        return last, first, torch.stack(items), items[-1]


@program(rows(100, 4))
class ManyTurns(nn.Module):
    """More turns than are written out."""

    def forward(self, x):
        h = torch.zeros(4)
        for i in range(100):
            h = torch.tanh(h + x[i] * i)
        return h


@program(rows(6, 2, 3), dynamic=({0: "time", 1: "batch"},), more=((rows(3, 4, 3),),))
class CellOverTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 5)

    def forward(self, x):
        h, c = torch.zeros(x.size(1), 5), torch.zeros(x.size(1), 5)
        out: List[Tensor] = []
        for t in range(x.size(0)):
            h, c = self.cell(x[t], (h, c))
            out.append(h)
        return torch.stack(out), c


# -- numbers, containers, constants -----------------------------------------------------------------


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),), (rows(2, 4),)))
class Numbers(nn.Module):
    def forward(self, x):
        b = x.size(0)
        n, m, f = (b * 3 + 1) // 2, max(b, 4) - min(b, 2), float(b) / 3
        y = torch.zeros(n, m) + f
        return y.view(-1)[:b], b**2, b % 3 == 0, -b // 2, -b % 3


@program(rows(3, 4), more=((rows(3, 4),),))
class OptionalArgument(nn.Module):
    def forward(self, x, y: Optional[Tensor] = None):
        if y is None:
            return x
        return x + y


class Pair(NamedTuple):
    mean: Tensor
    top: Tensor


@program(rows(3, 4))
class NamedResult(nn.Module):
    def forward(self, x) -> Pair:
        return Pair(x.mean(), x.max())


@program(rows(3, 4))
class DictResult(nn.Module):
    def forward(self, x) -> Dict[str, Tensor]:
        parts = {"a": x, "b": x + 1}
        parts["c"] = parts["a"] * parts["b"]
        return parts


@program((rows(3, 4), [rows(2), rows(2)]))
class NestedInput(nn.Module):
    def forward(self, given: Tuple[Tensor, List[Tensor]]) -> Tensor:
        x, items = given
        return x.sum() + items[0].sum() - items[1].sum()


@program(rows(3, 4))
class StaticLoops(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.turns = 5

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        for i in range(self.turns):
            x = x + i
        return x


@program(rows(3, 4), more=((rows(3, 4),),))
class StringsAndChecks(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "tanh"

    def forward(self, x):
        if self.mode == "tanh":
            x = torch.tanh(x)
        elif self.mode == "relu":
            x = torch.relu(x)
        else:
            raise ValueError("bad {}".format(self.mode))  # noqa: UP032  TorchScript has no f-strings
        assert x.dim() == 2, "rank"
        return x


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),),))
class ListMethods(nn.Module):
    def forward(self, x):
        parts = torch.chunk(x, 2, 1)
        a, b = parts[0], parts[1]
        items = [a, b]
        items.reverse()
        items.insert(1, a + b)
        items.pop(0)
        return torch.cat(items, 1)


@program(rows(3, 4), dynamic=ROWS, more=((rows(5, 4),),))
class MaskAndNonzero(nn.Module):
    def forward(self, x):
        m = x[x > 0]
        return m.sum(), m.numel(), torch.nonzero(x > 0)


# -- layers -----------------------------------------------------------------------------------------


@program(rows(2, 3, 8), dynamic=({0: "batch", 1: "time"},), more=((rows(4, 5, 8),),))
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 5, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(10, 3, 2)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        z, _ = self.gru(y)
        return z, h


@program(rows(2, 3, 8, 8), dynamic=({0: "batch", 2: "height", 3: "width"},), more=((rows(1, 3, 10, 12),),))
class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        y = functional.interpolate(self.stem(x), scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(y.mean([2, 3])), functional.adaptive_avg_pool2d(y, (1, 1)).flatten(1)


@program(rows(2, 5, 16), dynamic=({0: "batch", 1: "time"},), more=((rows(3, 7, 16),),))
class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)

    def forward(self, x):
        return self.encoder(x)
