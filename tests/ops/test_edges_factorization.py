"""Factorizations and solvers: batches, dynamic sizes, pivots, both sides."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from tests.ops.harness import check

L = torch.linalg


def positive(*shape: int) -> torch.Tensor:
    a = torch.randn(shape)
    return a @ a.mT + torch.eye(shape[-1])


FUNCTIONS: dict[str, Any] = {
    "inv": torch.inverse,
    "det": torch.det,
    "slogdet": L.slogdet,
    "lu": L.lu,
    "lu_factor": L.lu_factor,
    "qr": L.qr,
    "qr of wide": lambda a: L.qr(a[..., :2, :], mode="complete"),
    "r of tall": lambda a: L.qr(a[..., :2], mode="r")[1],
    "cholesky": lambda a: L.cholesky(a @ a.mT + torch.eye(a.shape[-1])),
    "upper cholesky": lambda a: L.cholesky(a @ a.mT + torch.eye(a.shape[-1]), upper=True),
    "exp": L.matrix_exp,
    "exp of large": lambda a: L.matrix_exp(4 * a),
    "solve": lambda a: L.solve(a, a[..., :2] + 1),
    "solve from the right": lambda a: L.solve(a, a[..., :2, :] + 1, left=False),
    "negative power": lambda a: L.matrix_power(a, -2),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches(name: str, dtype: torch.dtype) -> None:
    tolerance = {"rtol": 2e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-8, "atol": 1e-10}
    for shape in ((4, 4), (2, 3, 5, 5)):
        check(FUNCTIONS[name], torch.randn(shape, dtype=torch.float64).to(dtype), **tolerance)


@pytest.mark.parametrize("name", ["inv", "slogdet", "lu_factor", "qr", "cholesky", "exp", "solve"])
def test_dynamic_batch(name: str) -> None:
    more = [(torch.randn(5, 3, 3),)]
    check(FUNCTIONS[name], torch.randn(2, 3, 3), dynamic=({0: Dim.DYNAMIC},), again=more, rtol=2e-3, atol=1e-3)


def test_a_zero_pivot_and_a_singular_matrix() -> None:
    check(torch.inverse, torch.tensor([[0.0, 1, 2], [1, 0, 3], [4, -3, 8]]))
    check(L.slogdet, torch.tensor([[1.0, 2], [2, 4]]))


@pytest.mark.parametrize("upper", [False, True])
def test_triangles(upper: bool) -> None:
    a, b = torch.randn(2, 4, 4) + 3 * torch.eye(4), torch.randn(2, 4, 3)
    check(lambda a, b: L.solve_triangular(a, b, upper=upper), a.triu() if upper else a.tril(), b)
    check(lambda a, b: L.solve_triangular(a, b.mT, upper=upper, left=False), a, b)
    check(lambda a, b: L.solve_triangular(a[0], b, upper=upper, unitriangular=True), a, b, rtol=1e-3)
    check(lambda a, b: torch.cholesky_solve(b, L.cholesky(a, upper=upper), upper), positive(2, 4, 4), b, rtol=1e-3)
    check(lambda a: torch.cholesky_inverse(L.cholesky(a, upper=upper), upper), positive(4, 4), rtol=1e-3, atol=1e-4)


def test_vectors_and_factors_at_hand() -> None:
    check(L.solve, torch.randn(3, 3), torch.randn(3), rtol=1e-3, atol=1e-4)
    check(L.solve, torch.randn(2, 3, 3), torch.randn(2, 3), rtol=1e-3, atol=1e-4)
    check(lambda a, b: L.lu_solve(*L.lu_factor(a), b), torch.randn(2, 3, 3), torch.randn(2, 3, 2), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_solving_with_factors_from_both_sides(left: bool, adjoint: bool) -> None:
    factors, pivots = torch.linalg.lu_factor(torch.randn(2, 4, 4))
    right = torch.randn(2, 4, 3) if left else torch.randn(2, 3, 4)
    check(lambda f, p, b: torch.linalg.lu_solve(f, p, b, left=left, adjoint=adjoint), factors, pivots, right, rtol=1e-3)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)], ids=str)
def test_unpacked_factors_and_stored_reflections(shape: tuple[int, ...]) -> None:
    matrix = torch.randn(shape)
    check(lambda f, p: torch.lu_unpack(f, p), *torch.linalg.lu_factor(matrix))
    check(torch.geqrf, matrix)
    if shape[-2] >= shape[-1]:
        packed, tau = torch.geqrf(matrix)
        check(torch.linalg.householder_product, packed, tau)
        other = torch.randn(*shape[:-1], 2)
        check(lambda a, t, c: torch.ormqr(a, t, c, transpose=True), packed, tau, other)
