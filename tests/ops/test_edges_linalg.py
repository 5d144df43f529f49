"""Matrix products and einsum: ranks, types, factors, broadcasting, empty sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from tests.ops.harness import check

R = torch.randn


@pytest.mark.parametrize("shape", [(3,), (2, 3), (5, 2, 3), (1, 5, 2, 3)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    more = [R(4)] if bias else []
    check(F.linear, R(shape), R(4, 3), *more)
    check(F.linear, R(shape).double(), R(4, 3).double(), *(one.double() for one in more), rtol=1e-9)
    check(F.linear, R(shape).half(), R(4, 3).half(), *(one.half() for one in more), rtol=1e-2, atol=1e-2)


def test_linear_corner_cases() -> None:
    check(F.linear, R(2, 3), R(3))
    check(F.linear, torch.arange(6).reshape(2, 3), torch.arange(3).reshape(1, 3))
    dynamic = ({0: Dim.DYNAMIC}, None, None)
    check(F.linear, R(2, 3), R(4, 3), R(4), dynamic=dynamic, again=[(R(0, 3), R(4, 3), R(4))])
    assert [n.op_type for n in check(torch.nn.Linear(3, 4), R(2, 3)).model.graph] == ["Gemm"]


@pytest.mark.parametrize("factors", [{}, {"beta": 0.5, "alpha": 2}, {"beta": 0}, {"alpha": 0.1}], ids=str)
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("addmm", ((4,), (2, 3), (3, 4))),
        ("addmm", ((2, 1), (2, 3), (3, 4))),
        ("baddbmm", ((4,), (5, 2, 3), (5, 3, 4))),
        ("addbmm", ((2, 4), (5, 2, 3), (5, 3, 4))),
        ("addmv", ((2,), (2, 3), (3,))),
        ("addr", ((2, 3), (2,), (3,))),
    ],
)
def test_products_with_a_term(name: str, shapes: Any, factors: dict[str, float]) -> None:
    tensors = [R(shape) for shape in shapes]
    if factors.get("beta") == 0:
        tensors[0] = tensors[0] * float("nan")
    check(lambda *args: getattr(torch, name)(*args, **factors), *tensors)
    double = [one.double() for one in tensors]
    check(lambda *args: getattr(torch, name)(*args, **factors), *double, rtol=1e-12, atol=1e-12)


def test_integers() -> None:
    a, b = torch.arange(6).reshape(2, 3), torch.arange(12).reshape(3, 4)
    check(lambda x, a, b: torch.addmm(x, a, b, beta=3, alpha=2), torch.ones(4, dtype=torch.long), a, b)
    check(torch.mm, a.to(torch.int8) * 20, b.to(torch.int8))  # wraps


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("matmul", ((3,), (3,))),
        ("matmul", ((3,), (2, 3, 4))),
        ("matmul", ((5, 2, 3), (3,))),
        ("matmul", ((5, 1, 2, 3), (4, 3, 2))),
        ("matmul", ((2, 0), (0, 4))),
        ("dot", ((3,), (3,))),
        ("mv", ((2, 3), (3,))),
        ("outer", ((2,), (3,))),
        ("inner", ((2, 3), (4, 5, 3))),
        ("inner", ((), (2,))),
        ("kron", ((2, 3), (4, 1, 5))),
        ("kron", ((), (2, 2))),
        ("det", ((3, 3),)),
        ("trace", ((3, 4),)),
        ("trace", ((4, 3),)),
        ("chain_matmul", ((2, 3), (3, 4), (4, 2))),
        ("tensordot", ((2, 3, 4), (3, 4, 5))),
        ("cross", ((4, 3), (4, 3))),
    ],
)
def test_by_name(name: str, shapes: Any) -> None:
    check(getattr(torch, name), *(R(shape) for shape in shapes))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: torch.linalg.matrix_power(a, 5),
        lambda a: torch.linalg.multi_dot([a[0], a, a, a[1]]),
        lambda a: torch.linalg.cross(a, a[:1] + 1, dim=-1),
        lambda a: torch.linalg.vecdot(a, a + 1),
        lambda a: torch.tensordot(a, a, dims=([0, 1], [1, 0])),
        lambda a: torch.tensordot(a, a[0], dims=0),
        lambda a: torch.trace(a.long()),
        lambda a: F.bilinear(a, a + 1, torch.stack([a, a, a, a]), torch.ones(4)),
        lambda a: torch.cosine_similarity(a, a[:1] + 1, dim=-1),
        lambda a: torch.linalg.norm(a),
        lambda a: torch.linalg.matrix_norm(a, float("inf")),
    ],
)
def test_other_functions(function: Any) -> None:
    check(function, R(3, 3))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))),
        ("bhid,bhjd->bhij", ((2, 3, 4, 5), (2, 3, 6, 5))),
        (" b i h d , b j h d -> b h i j", ((2, 3, 4, 5), (2, 6, 4, 5))),
        ("ii->i", ((3, 3),)),
        ("ii", ((3, 3),)),
        ("ji", ((2, 3),)),
        ("i,i", ((3,), (3,))),
        ("i,j->ij", ((3,), (4,))),
        ("bij,bjk->bik", ((1, 2, 3), (4, 3, 5))),
        ("bij,bjk->bik", ((4, 2, 1), (4, 3, 5))),
        ("Ab,bC->AC", ((2, 3), (3, 4))),
        ("ijk,kl,lm->im", ((2, 3, 4), (4, 5), (5, 6))),
        ("...ij,...jk->...ik", ((2, 3, 4), (4, 5))),
        ("...ij,...jk", ((2, 3, 4), (6, 1, 4, 5))),
        ("i...->...", ((3, 4),)),
        ("bj,bij->bi", ((2, 4), (2, 3, 4))),
        ("bnd,ncd->bnc", ((2, 3, 4), (3, 5, 4))),
    ],
)
def test_einsum(equation: str, shapes: Any) -> None:
    check(lambda *args: torch.einsum(equation, *args), *(R(shape) for shape in shapes))


def test_einsum_with_dynamic_sizes() -> None:
    size = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    result = check(
        lambda a, b: torch.einsum("bid,bjd->bij", a, b), R(2, 3, 4), R(2, 5, 4), dynamic=(size, size),
        again=[(R(3, 7, 4), R(3, 2, 4)), (R(0, 7, 4), R(0, 2, 4))],
    )  # fmt: skip
    assert "Einsum" not in [node.op_type for node in result.model.graph]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p: float) -> None:
    size = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    check(lambda a, b: torch.cdist(a, b, p=p), R(2, 5, 3), R(2, 4, 3), dynamic=(size, size),
          again=[(R(3, 7, 3), R(3, 2, 3))])  # fmt: skip
