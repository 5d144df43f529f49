"""Eigen- and singular values, their vectors by what must hold of them, and what is made of both."""

from __future__ import annotations

import pytest
import torch

from tests.ops.harness import check

F64 = torch.float64
SQUARE = [(1, 1), (2, 2), (3, 3), (7, 7), (2, 5, 5), (3, 2, 6, 6), (20, 20), (0, 3, 3), (0, 0)]
SHAPES = [(1, 1), (3, 5), (5, 3), (4, 4), (2, 6, 3), (2, 3, 6), (30, 20), (3, 0), (0, 3), (0, 4, 3)]
LOW_RANK = torch.randn(5, 2, dtype=F64) @ torch.randn(2, 4, dtype=F64)


def eigen(x):
    values, vectors = torch.linalg.eigh(x + x.mT)
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT, vectors.mT @ vectors


def whole(x):
    u, s, v = torch.linalg.svd(x, full_matrices=True)
    k = s.shape[-1]
    return s, (u[..., :k] * s.unsqueeze(-2)) @ v[..., :k, :], u.mT @ u, v @ v.mT


def reduced(x):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return s, (u * s.unsqueeze(-2)) @ v, u.mT @ u, v @ v.mT


def older(x):
    u, s, v = torch.svd(x)
    return s, (u * s.unsqueeze(-2)) @ v.mT


@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_symmetric_matrices(shape: tuple[int, ...]) -> None:
    result = check(eigen, torch.randn(shape, dtype=F64), rtol=1e-9, atol=1e-9)
    assert any("sign" in note for note in result.report.notes)


@pytest.mark.parametrize("function", [whole, reduced, older], ids=["whole", "reduced", "older"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values(shape: tuple[int, ...], function) -> None:
    check(function, torch.randn(shape, dtype=F64), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("matrix", [LOW_RANK, torch.zeros(3, 3, dtype=F64)], ids=["low_rank", "zero"])
def test_singular_matrices(matrix: torch.Tensor) -> None:
    check(whole, matrix, rtol=1e-9, atol=1e-9)
    check(lambda x: (torch.linalg.pinv(x), torch.linalg.matrix_rank(x), torch.linalg.svdvals(x)), matrix, atol=1e-9)


def test_dynamic_sizes() -> None:
    dynamic = [{0: "n", 1: "n"}]
    check(eigen, torch.randn(4, 4), dynamic=dynamic, again=[(torch.randn(7, 7),), (torch.randn(2, 2),)], atol=1e-4)
    values = lambda x: (torch.linalg.svdvals(x), torch.linalg.pinv(x))  # noqa: E731
    check(values, torch.eye(4) + torch.ones(4, 4), dynamic=dynamic, again=[(torch.eye(7) * 2,)])
    batch = [{0: "batch"}]
    check(reduced, torch.randn(2, 5, 3), dynamic=batch, again=[(torch.randn(4, 5, 3),)], atol=1e-4)


def test_triangles_norms_and_conditions() -> None:
    x = torch.randn(5, 5)
    check(lambda x: (torch.linalg.eigvalsh(x, UPLO="U"), torch.linalg.eigvalsh(x, UPLO="L")), x)
    check(lambda x: tuple(torch.linalg.matrix_norm(x, p) for p in ("nuc", "fro", 1, -1, 2, -2, float("inf"))), x)
    check(lambda x: tuple(torch.linalg.cond(x, p) for p in (None, 2, -2, "fro", 1)), x, rtol=1e-3)
    check(lambda x: torch.linalg.matrix_rank(x @ x.mT, hermitian=True), x[:, :3])
