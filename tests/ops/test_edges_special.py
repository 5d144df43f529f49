"""Special functions: ten digits in double precision, poles and ends included."""

from __future__ import annotations

import pytest
import torch

from tests.ops.harness import check

INF, NAN = float("inf"), float("nan")
LINE = torch.cat([torch.linspace(-9.7, 9.7, 60), torch.linspace(10, 90, 23), torch.tensor([0.0, 1e-8, -1e-8])]).double()
RIGHT = torch.cat([torch.linspace(0.01, 12, 70), torch.linspace(13, 200, 20)]).double()
UNIT = torch.cat([torch.linspace(0.001, 0.999, 60), torch.tensor([1e-12, 1e-300, 0.0, 1.0, 0.5])]).double()
SPECIAL = torch.special
ON_LINE = {
    "lgamma": torch.lgamma, "digamma": torch.digamma, "erfcx": lambda x: SPECIAL.erfcx(x.clamp(-5, 90)),
    "log_ndtr": SPECIAL.log_ndtr, "i0e": SPECIAL.i0e, "i1e": SPECIAL.i1e, "i0": torch.i0, "i1": SPECIAL.i1,
    "bessel_j0": SPECIAL.bessel_j0, "bessel_j1": SPECIAL.bessel_j1, "spherical_j0": SPECIAL.spherical_bessel_j0,
}  # fmt: skip
ON_RIGHT = {
    "y0": SPECIAL.bessel_y0, "y1": SPECIAL.bessel_y1,
    "k0": SPECIAL.modified_bessel_k0, "k1": SPECIAL.modified_bessel_k1,
    "scaled_k0": SPECIAL.scaled_modified_bessel_k0, "scaled_k1": SPECIAL.scaled_modified_bessel_k1,
    "trigamma": lambda x: torch.polygamma(1, x), "third": lambda x: torch.polygamma(3, x),
    "zeta": lambda x: SPECIAL.zeta(torch.tensor(2.5, dtype=torch.float64), x),
    "mvlgamma": lambda x: torch.mvlgamma(x + 2, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_LINE)
def test_on_the_line(name: str) -> None:
    # Eager's own waves have six digits only.
    check(ON_LINE[name], LINE, **({"rtol": 1e-5, "atol": 1e-6} if "bessel" in name else {"rtol": 1e-10, "atol": 1e-13}))


@pytest.mark.parametrize("name", ON_RIGHT)
def test_on_the_right(name: str) -> None:
    check(ON_RIGHT[name], RIGHT, rtol=1e-9, atol=2e-6 if name in ("y0", "y1") else 1e-12)


def test_inverses_in_both_tails() -> None:
    check(SPECIAL.ndtri, UNIT, rtol=1e-9, atol=1e-12)
    check(torch.erfinv, torch.cat([UNIT, -UNIT, torch.tensor([1.5, NAN])]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["lgamma", "digamma", "i0e", "bessel_j0", "log_ndtr"])
def test_ends_and_poles(name: str) -> None:
    ends = torch.tensor([INF, NAN, 0.0, -1.0, -2.0] + ([] if name == "digamma" else [-INF]))
    check(ON_LINE[name], ends)


@pytest.mark.parametrize("name", ["lgamma", "digamma", "i0"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.bfloat16])
def test_types_rank_0_and_dynamic_sizes(name: str, dtype: torch.dtype) -> None:
    check(ON_LINE[name], torch.tensor(3).to(dtype), rtol=1e-2)
    x = torch.tensor([[1, 2, 3], [4, 5, 6]]).to(dtype)
    check(ON_LINE[name], x, dynamic=[{0: "n"}], again=[(x[:0],), (x[:1],)], rtol=1e-2)


POLYNOMIALS = [name for name in dir(SPECIAL) if "_polynomial_" in name]


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    function = getattr(SPECIAL, name)
    x = torch.tensor([[-1.5], [-1.0], [0.0], [0.3], [1.0], [1.2]], dtype=torch.float64)
    degrees = torch.tensor([-1.0, 0.0, 1.0, 2.0, 5.0, 9.0], dtype=torch.float64)
    check(function, x, degrees, dynamic=[{0: "n"}, None], again=[(x[:2], degrees)], rtol=1e-8, atol=1e-10)
    check(lambda x: function(x, 4), x, rtol=1e-8, atol=1e-10)


def test_log1p_beyond_its_domain() -> None:
    inf, nan = float("inf"), float("nan")
    check(torch.log1p, torch.tensor([-inf, inf, -1.0, -2.0, 0.0, nan, 1e-12]))
