"""Modules that tracing freezes something of; the comments name what."""

from __future__ import annotations

import torch
from torch import nn


class BranchOnData(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # a branch
            return x + 1
        return x * 2


class LoopOverSize(nn.Module):
    def forward(self, x):
        for i in range(x.shape[0]):
            x = x + i  # as many turns as the example has
        return x


class NumberOfSize(nn.Module):
    def forward(self, x):
        n = int(x.shape[0])  # a size as a number
        return x * n


class NumberOfData(nn.Module):
    def forward(self, x):
        return x * x.max().item()  # a value as a number


class ArrayOfNumpy(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(x.numpy() * 2)  # values of an array


class Checked(nn.Module):
    """Only a check: nothing is frozen."""

    def forward(self, x):
        if x.shape[1] != 4:
            raise ValueError("four columns")
        assert bool(x.isfinite().all())
        return x * 2


class Plain(nn.Module):
    """Everything here is kept by tracing."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.gru = nn.GRU(3, 5, batch_first=True)

    def forward(self, x, scale: float = 2.5, *, mask=None):
        b, c = x.shape
        y = self.fc(x).reshape(b, 1, 3)
        if mask is not None:
            y = y * mask.unsqueeze(-1).unsqueeze(-1)
        z, _ = self.gru(y.expand(b, 2, 3))
        return {"y": y.view(b, -1), "z": z, "pair": (torch.arange(b * c) // 2, x.long() * scale), "none": None}
