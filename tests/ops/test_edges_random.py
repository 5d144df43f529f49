"""Random numbers: shape, type and distribution at opsets with and without runtime kernels; no two draws alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

import onnx_lab
from tests.ops.harness import Function

COUNT = 20000
OPSETS = [18, 23]
Draw = Callable[..., Any]


def draws(
    function: Draw, *args: torch.Tensor, opset: int = 23, dynamic: Any = None, feeds: Any = None, runs: int = 1
) -> list[list[np.ndarray[Any, Any]]]:
    """What several runs of the exported function give; types and ranks must be eager's."""
    module = Function(function)
    shapes = None if dynamic is None else (tuple(dynamic),)
    result = onnx_lab.export(module, args, dynamic_shapes=shapes, opset_version=opset)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    model = result.model_proto().SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = args if feeds is None else feeds
    names = [one.name for one in session.get_inputs()]
    fed = dict(zip(names, (tensor.numpy() for tensor in given), strict=True))
    found = [session.run(None, fed) for _ in range(runs)]
    eager = torch.utils._pytree.tree_leaves(module(*(tensor.clone() for tensor in given)))
    for got, want in zip(found[0], eager, strict=True):
        assert got.shape == tuple(want.shape)
        if want.dtype != torch.bfloat16:
            assert str(got.dtype) == str(want.dtype).removeprefix("torch.")
    return found


def agrees(sample: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> None:
    """Two-sample Kolmogorov-Smirnov distance below what chance gives once in 10⁶."""
    a, b = np.sort(sample.astype(np.float64).ravel()), np.sort(reference.astype(np.float64).ravel())
    both = np.concatenate([a, b])
    distance = np.abs(
        np.searchsorted(a, both, side="right") / a.size - np.searchsorted(b, both, side="right") / b.size
    ).max()
    assert distance < 2.7 * math.sqrt((a.size + b.size) / (a.size * b.size)), f"distance {distance}"


X = torch.zeros(COUNT)
HALVES = torch.full((COUNT,), 0.3)
FUNCTIONS: dict[str, tuple[Draw, tuple[torch.Tensor, ...]]] = {
    "rand": (lambda: torch.rand(COUNT), ()),
    "randn": (lambda: torch.randn(COUNT), ()),
    "rand_like": (torch.rand_like, (X,)),
    "randn_like": (torch.randn_like, (X,)),
    "rand_half": (lambda x: torch.rand_like(x, dtype=torch.float16), (X,)),
    "randn_half": (lambda x: torch.randn_like(x, dtype=torch.float16), (X,)),
    "rand_double": (lambda: torch.rand(COUNT, dtype=torch.float64), ()),
    "randn_double": (lambda: torch.randn(100, COUNT // 100, dtype=torch.float64), ()),
    "randint": (lambda: torch.randint(7, (COUNT,)), ()),
    "randint_low": (lambda: torch.randint(-3, 5, (COUNT,), dtype=torch.int32), ()),
    "randint_wide": (lambda: torch.randint(-(2**62), 2**62, (COUNT,)), ()),
    "randint_whole": (lambda: torch.randint(-(2**63), 2**63 - 1, (COUNT,)), ()),
    "randint_like": (lambda x: torch.randint_like(x, 3, 10), (X,)),
    "randperm": (lambda: torch.randperm(COUNT), ()),
    "bernoulli": (torch.bernoulli, (HALVES,)),
    "bernoulli_p": (lambda x: x.bernoulli_(0.2), (X,)),
    "bernoulli_tensor": (lambda x, p: x.bernoulli_(p), (torch.zeros(COUNT, dtype=torch.int64), HALVES.double())),
    "normal_tensors": (torch.normal, (torch.full((COUNT, 1), 2.0), torch.tensor([0.5]))),
    "normal_mean": (lambda m: torch.normal(m, 3.0), (torch.full((COUNT,), 2.0),)),
    "normal_std": (lambda s: torch.normal(2.0, s), (torch.full((COUNT,), 0.5),)),
    "normal_numbers": (lambda: torch.normal(1.0, 2.0, (COUNT,)), ()),
    "normal_": (lambda x: x.normal_(-2, 0.5), (X,)),
    "uniform_": (lambda x: x.uniform_(-3, 4), (X,)),
    "exponential_": (lambda x: x.exponential_(2.5), (X,)),
    "exponential_half": (lambda x: x.half().exponential_(2.5), (X,)),
    "cauchy_": (lambda x: x.cauchy_(1.0, 2.0), (X,)),
    "geometric_": (lambda x: x.geometric_(0.3), (X,)),
    "geometric_whole": (lambda x: x.geometric_(0.3), (X.long(),)),
    "log_normal_": (lambda x: x.log_normal_(0.5, 0.25), (X,)),
    "random_": (lambda x: x.random_(), (X,)),
    "random_whole": (lambda x: x.random_(), (X.to(torch.uint8),)),
    "random_to": (lambda x: x.random_(9), (X,)),
    "randn_complex": (lambda: torch.view_as_real(torch.randn(COUNT, dtype=torch.complex64)), ()),
    "rand_complex": (lambda x: torch.view_as_real(torch.rand_like(torch.complex(x, x))), (X,)),
    "poisson": (torch.poisson, (X + 4.5,)),
    "poisson_little": (torch.poisson, (X.double() + 0.1,)),
    "binomial": (torch.binomial, (X + 12, HALVES)),
    "gamma": (torch._standard_gamma, (X + 2.5,)),
    "gamma_little": (torch._standard_gamma, (X + 0.2,)),
    "gamma_double": (torch._standard_gamma, (X.double() + 1,)),
    "dirichlet": (
        lambda x: torch._sample_dirichlet(x)[:, 1],
        (torch.tensor([0.5, 2.0, 1.0]).expand(COUNT, 3).clone(),),
    ),
    "multinomial": (
        lambda w: torch.multinomial(w, COUNT, replacement=True),
        (torch.tensor([[0, 1.0, 3, 0, 2, 0], [0, 1.0, 3, 0, 2, 0]]),),
    ),
    "multinomial_1d": (lambda w: torch.multinomial(w, COUNT, replacement=True), (torch.tensor([0.5, 1, 0, 2.5]),)),
    "multinomial_once": (
        lambda w: torch.multinomial(w, 2),
        (torch.tensor([4.0, 1.0, 3.0, 2.0]).expand(COUNT, 4).contiguous(),),
    ),
    "dropout": (lambda x: torch.nn.functional.dropout(x, 0.3), (X + 1,)),
    "dropout_half": (lambda x: torch.nn.functional.dropout(x.half(), 0.3), (X + 1,)),
    "native_dropout": (lambda x: torch.native_dropout(x, 0.3, True), (X + 1,)),
    "alpha_dropout": (lambda x: torch.nn.functional.alpha_dropout(x, 0.3, training=True), (X + 1,)),
    "rows_dropped": (
        lambda x: torch.nn.functional.dropout(x.softmax(-1), 0.3) @ torch.ones(4, 1),
        ((X + 1).reshape(-1, 4),),
    ),
    "attention_dropped": (
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.4),
        ((X + 1).reshape(2, -1, 5, 1),),
    ),
    "rrelu": (lambda x: torch.rrelu(x, 0.2, 0.8, training=True), (X - 1,)),
}


@pytest.mark.parametrize("where", ["18", "23", "23-inside"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_distribution(name: str, where: str) -> None:
    drawn, args = FUNCTIONS[name]

    def inside(*given: torch.Tensor) -> Any:
        # Runtimes simplify what is inside a graph more than what makes its outputs.
        return torch.utils._pytree.tree_map(lambda leaf: -(leaf.double() * 3 + 1), drawn(*given))

    function = inside if where.endswith("inside") else drawn
    torch.manual_seed(0)
    reference = torch.utils._pytree.tree_leaves(function(*(tensor.clone() for tensor in args)))
    for got, want in zip(draws(function, *args, opset=int(where[:2]))[0], reference, strict=True):
        # Equal numbers may differ in the last digit.
        pair = (got, want.numpy())
        agrees(*(one.astype(np.float64).round(5) for one in pair) if "dropout" in name and "half" not in name else pair)
        if name.startswith("multinomial_once"):
            assert (got[:, 0] != got[:, 1]).all()


@pytest.mark.parametrize("opset", OPSETS)
def test_moments_and_limits(opset: int) -> None:
    (u, z), *_ = draws(lambda: (torch.rand(200000), torch.randn(200000)), opset=opset)
    assert u.min() >= 0
    assert u.max() < 1
    for power in (1, 2, 3, 4):
        assert abs((u.astype(np.float64) ** power).mean() - 1 / (power + 1)) < 0.004
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01
    assert abs((z**4).mean() - 3) < 0.1
    for lag in (1, 2, 7):
        assert abs(np.corrcoef(u[:-lag], u[lag:])[0, 1]) < 0.012
    (half,), *_ = draws(lambda: torch.rand(200000, dtype=torch.float16), opset=opset)
    assert half.max() < 1


EQUAL_CALLS: dict[str, tuple[Draw, tuple[torch.Tensor, ...]]] = {
    "rand": (lambda x: (torch.rand(50), torch.rand(50)), (torch.ones(50),)),
    "randn_like": (lambda x: (torch.randn_like(x), torch.randn_like(x)), (torch.ones(50),)),
    "randint": (lambda x: (torch.randint(1 << 40, (50,)), torch.randint(1 << 40, (50,))), (torch.ones(50),)),
    "randperm": (lambda x: (torch.randperm(50), torch.randperm(50)), (torch.ones(50),)),
    "bernoulli": (lambda x: (torch.bernoulli(x), torch.bernoulli(x)), (torch.full((50,), 0.5),)),
    "exponential": (lambda x: (x.clone().exponential_(), x.clone().exponential_()), (torch.ones(50),)),
    "dropout": (lambda x: tuple(torch.nn.functional.dropout(x) for _ in range(2)), (torch.ones(50),)),
    "alpha": (
        lambda x: tuple(torch.nn.functional.alpha_dropout(x, training=True) for _ in range(2)),
        (torch.ones(50),),
    ),
    "multinomial": (lambda x: tuple(torch.multinomial(x, 50, replacement=True) for _ in range(2)), (torch.ones(50),)),
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", EQUAL_CALLS)
def test_equal_calls_and_runs_are_never_merged(name: str, opset: int) -> None:
    function, args = EQUAL_CALLS[name]
    first, second = draws(function, *args, opset=opset, runs=2)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], second[0])


def test_single_numbers_of_two_calls_are_unlike() -> None:
    found = draws(lambda: (torch.rand(()), torch.rand(()), torch.randn(1), torch.randn(1)), runs=40)
    a, b, c, d = (np.asarray([run[index] for run in found]).ravel() for index in range(4))
    assert min(np.abs(a - b).max(), np.abs(c - d).max()) > 0.1
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.75
    assert np.unique(np.concatenate([a, b])).size == 80


DYNAMIC: dict[str, Draw] = {
    "rand": lambda x: torch.rand(x.shape[1], 3, x.shape[0]),
    "randn": lambda x: torch.randn(x.shape),
    "rand_like": torch.rand_like,
    "randint": lambda x: torch.randint(0, x.shape[0] + 1, (x.shape[1], 2)),
    "randint_like": lambda x: torch.randint_like(x, 5, dtype=torch.int64),
    "randperm": lambda x: torch.randperm(x.shape[0]),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "normal": lambda x: torch.normal(x, torch.exp(x[:1])),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "dropout1d": lambda x: torch.nn.functional.dropout1d(x[None], 0.5),
    "feature_alpha": lambda x: torch.nn.functional.feature_alpha_dropout(x[None], 0.5, training=True),
    "multinomial": lambda x: torch.multinomial(torch.exp(x), 1),
    "multinomial_many": lambda x: torch.multinomial(torch.exp(x), x.shape[0], replacement=True),
    "exponential": lambda x: torch.empty_like(x).exponential_(),
    "poisson": lambda x: torch.poisson(x.exp()),
    "binomial": lambda x: torch.binomial(torch.full_like(x, 3), x[:1].sigmoid().expand(x.shape)),
    "gamma": lambda x: torch._standard_gamma(x.exp()),
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_sizes(name: str, opset: int) -> None:
    shapes = [{0: "rows", 1: "columns"}]
    sizes = [(4, 5), (1, 9), (7, 3)]
    if not name.startswith("multinomial"):
        sizes += [(0, 5), (3, 0)]
    for size in sizes:
        draws(DYNAMIC[name], torch.randn(4, 5), dynamic=shapes, feeds=(torch.randn(size),), opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_rank_0_and_empty(shape: tuple[int, ...], opset: int) -> None:
    x = torch.full(shape, 0.5)

    def everything(x: torch.Tensor) -> Any:
        drawn = (torch.rand_like(x), torch.randn_like(x), torch.randint_like(x, 5), torch.bernoulli(x))
        made = (x.clone().exponential_(), x.clone().geometric_(0.5), torch.rand(shape), torch.normal(x, x))
        return *drawn, *made, torch.nn.functional.dropout(x, 0.2), torch.nn.functional.alpha_dropout(x, training=True)

    draws(everything, x, opset=opset)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_nothing_and_of_all(p: float) -> None:
    x = torch.tensor([[1.0, -2.0, 3.0]])

    def everything(x: torch.Tensor) -> Any:
        kinds = (
            torch.nn.functional.dropout,
            torch.nn.functional.alpha_dropout,
            torch.nn.functional.feature_alpha_dropout,
        )
        return *(kind(x, p, training=True) for kind in kinds), *torch.native_dropout(x, p, True)

    for got, want in zip(draws(everything, x)[0], everything(x), strict=True):
        np.testing.assert_array_equal(got, want.numpy())


def test_dropout_drops_whole_channels() -> None:
    x = torch.ones(60, 50, 3, 2)
    for kind in (torch.nn.functional.dropout2d, torch.nn.functional.feature_alpha_dropout):
        [[got]] = draws(lambda x, kind=kind: kind(x, 0.4, training=True), x)
        assert (got == got[:, :, :1, :1]).all()
        values, counts = np.unique(got[:, :, 0, 0], return_counts=True)
        assert values.size == 2
        assert abs(counts[0] / 3000 - 0.4) < 0.05
        np.testing.assert_allclose(values, np.unique(kind(x, 0.4, training=True).numpy()), rtol=1e-6)


def test_probabilities_0_and_1() -> None:
    p = torch.tensor([0.0, 1.0]).repeat(3000)
    for opset in OPSETS:
        [[got]] = draws(torch.bernoulli, p, opset=opset)
        np.testing.assert_array_equal(got, p.numpy())
