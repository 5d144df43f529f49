"""ONNX operators in double precision, spelled with those for which the runtime has a kernel in double.

ONNX Runtime computes many functions on the CPU in float only, and a detour through float would lose digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower import windows

if TYPE_CHECKING:
    from onnx_lab.lower.builder import Builder

DOUBLE = ir.DataType.DOUBLE
Value = ir.Value
Spelling = Callable[..., Value]

# log(erfc(x) / t) + x² as a Chebyshev series in 2t − 1, with t = 2 / (2 + x) for x ≥ 0. Computed with 40
# digits at 60 Chebyshev nodes; the first term left out is below 2e-16.
ERFC_SERIES = (
    -0.6513268598908547171, 0.6419697923564902603, 0.019476473204185836312, -0.0095615147868086316419,
    -0.0009465953444820368663, 0.00036683949785276145187, 4.2523324806907771645e-5, -2.0278578112534243154e-5,
    -1.6242900046470255135e-6, 1.3036558355805232018e-6, 1.5626441722066143178e-8, -8.5238095914926542525e-8,
    6.5290544390988514964e-9, 5.0593434955514689418e-9, -9.9136415649303308674e-10, -2.2736512229318358557e-10,
    9.646791102015526802e-11, 2.3940380830391147447e-12, -6.8860275264975533984e-12, 8.9448792730907257167e-13,
    3.1309213993429580783e-13, -1.1270822361367252366e-13, 3.8109052551892320552e-16, 7.1060976136092369878e-15,
    -1.5230282014571043043e-15, -9.4574945712912340005e-17, 1.2102371892242789923e-16,
)  # fmt: skip


def _float_of(op: Builder, name: str, x: Value) -> Value:
    """The runtime's float result as a double: a first guess of seven digits."""
    made: Value = op.Cast(getattr(op, name)(op.Cast(x, to=ir.DataType.FLOAT)), to=DOUBLE)
    return made


def _number(op: Builder, value: float) -> Value:
    return op.constants.get(value, DOUBLE)


def _expm1(op: Builder, x: Value) -> Value:
    """eˣ − 1 = tanh(x/2) · (eˣ + 1) near zero, where the plain difference cancels."""
    grown = op.Exp(x)
    near: Value = op.Mul(op.Tanh(op.Mul(x, 0.5)), op.Add(grown, 1.0))
    made: Value = op.Where(op.Less(op.Abs(x), 0.5), near, op.Sub(grown, 1.0))
    return made


def _log1p(op: Builder, x: Value) -> Value:
    """log(1 + x), corrected by the part of x that the sum has rounded away (Kahan)."""
    whole = op.Add(x, 1.0)
    kept = op.Sub(whole, 1.0)
    lost = op.Or(op.Equal(kept, 0.0), op.IsInf(whole))
    ratio = op.Div(x, op.Where(lost, _number(op, 1.0), kept))
    made: Value = op.Where(lost, op.Where(op.IsInf(whole), whole, x), op.Mul(op.Log(whole), ratio))
    return made


def _tan(op: Builder, x: Value) -> Value:
    made: Value = op.Div(op.Sin(x), op.Cos(x))
    return made


def _atan(op: Builder, x: Value) -> Value:
    """One step from the float result a: atan x = a + atan((x − tan a) / (1 + x tan a)), the rest below 1e-6."""
    guess = _float_of(op, "Atan", x)
    slope = _tan(op, guess)
    rest = op.Div(op.Sub(x, slope), op.Add(op.Mul(x, slope), 1.0))
    end = op.Mul(op.Sign(x), math.pi / 2)
    made: Value = op.Where(op.Greater(op.Abs(x), 1e15), end, op.Add(guess, rest))
    return made


def _asin(op: Builder, x: Value) -> Value:
    """2 atan(x / (1 + √(1 − x²))) (DLMF 4.24)."""
    root = op.Sqrt(op.Mul(op.Sub(1.0, x), op.Add(x, 1.0)))
    made: Value = op.Mul(_atan(op, op.Div(x, op.Add(root, 1.0))), 2.0)
    return made


def _acos(op: Builder, x: Value) -> Value:
    """2 atan √((1 − x) / (1 + x)) (DLMF 4.24)."""
    made: Value = op.Mul(_atan(op, op.Sqrt(op.Div(op.Sub(1.0, x), op.Add(x, 1.0)))), 2.0)
    return made


def _sinh(op: Builder, x: Value) -> Value:
    """(e^x − e^−x) / 2 from e^x − 1, in halves so that the result overflows no earlier than sinh does."""
    near = _expm1(op, x)
    small = op.Mul(op.Add(near, op.Div(near, op.Add(near, 1.0))), 0.5)
    half = op.Exp(op.Mul(op.Abs(x), 0.5))
    large = op.Mul(op.Sign(x), op.Mul(op.Mul(half, 0.5), half))
    made: Value = op.Where(op.Less(op.Abs(x), 30.0), small, large)
    return made


def _cosh(op: Builder, x: Value) -> Value:
    half = op.Exp(op.Mul(op.Abs(x), 0.5))
    whole = op.Mul(op.Mul(half, 0.5), half)
    made: Value = op.Add(whole, op.Mul(op.Exp(op.Neg(op.Abs(x))), 0.5))
    return made


def _asinh(op: Builder, x: Value) -> Value:
    """±log1p(|x| + x² / (1 + √(x² + 1))); log 2|x| where the square would overflow."""
    size = op.Abs(x)
    safe = op.Min(size, 1e150)
    square = op.Mul(safe, safe)
    near = _log1p(op, op.Add(safe, op.Div(square, op.Add(op.Sqrt(op.Add(square, 1.0)), 1.0))))
    far = op.Add(op.Log(op.Max(size, 1.0)), math.log(2))
    made: Value = op.Mul(op.Sign(x), op.Where(op.Less(size, 1e150), near, far))
    return op.Where(op.IsNaN(x), x, made)


def _acosh(op: Builder, x: Value) -> Value:
    """log1p(t + √(2t + t²)) with t = x − 1; log 2x where the square would overflow."""
    over = op.Sub(x, 1.0)
    near = _log1p(op, op.Add(over, op.Mul(op.Sqrt(over), op.Sqrt(op.Add(over, 2.0)))))
    made: Value = op.Where(op.Greater(x, 1e300), op.Add(op.Log(x), math.log(2)), near)
    return made


def _atanh(op: Builder, x: Value) -> Value:
    """½ log1p(2x / (1 − x)), on |x| so that both ends are alike."""
    size = op.Abs(x)
    made: Value = op.Mul(op.Sign(x), op.Mul(_log1p(op, op.Div(op.Mul(size, 2.0), op.Sub(1.0, size))), 0.5))
    return op.Where(op.IsNaN(x), x, made)


def _erf(op: Builder, x: Value) -> Value:
    """Power series (DLMF 7.6.1) below ½, else 1 − erfc by the series above."""
    square = op.Mul(x, x)
    series: Any = None
    for n in range(14, -1, -1):
        term = (-1) ** n / (math.factorial(n) * (2 * n + 1))
        series = _number(op, term) if series is None else op.Add(op.Mul(series, square), term)
    near = op.Mul(op.Mul(series, x), 2 / math.sqrt(math.pi))
    size = op.Min(op.Abs(x), 10.0)
    ratio = op.Div(2.0, op.Add(size, 2.0))
    rest = op.Mul(ratio, op.Exp(op.Sub(_chebyshev(op, op.Sub(op.Mul(ratio, 2.0), 1.0)), op.Mul(size, size))))
    made: Value = op.Where(op.Less(op.Abs(x), 0.5), near, op.Mul(op.Sign(x), op.Sub(1.0, rest)))
    return op.Where(op.IsNaN(x), x, made)


def _chebyshev(op: Builder, u: Value) -> Value:
    """Clenshaw's recurrence of the erfc series."""
    later, last = _number(op, 0.0), _number(op, 0.0)
    double = op.Mul(u, 2.0)
    for coefficient in reversed(ERFC_SERIES[1:]):
        later, last = op.Add(op.Sub(op.Mul(double, later), last), coefficient), later
    made: Value = op.Add(op.Sub(op.Mul(u, later), last), ERFC_SERIES[0])
    return made


def _softplus(op: Builder, x: Value) -> Value:
    """Largest part first: max(x, 0) + log(1 + e^−|x|)."""
    made: Value = op.Add(op.Max(x, 0.0), _log1p(op, op.Exp(op.Neg(op.Abs(x)))))
    return op.Where(op.IsNaN(x), x, made)


def _elu(op: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    made: Value = op.Where(op.Less(x, 0.0), op.Mul(_expm1(op, x), alpha), x)
    return made


def _selu(op: Builder, x: Value, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Value:
    """With all digits of the two numbers (Klambauer et al., 2017), of which ONNX's defaults are floats."""
    made: Value = op.Mul(_elu(op, x, alpha=alpha), gamma)
    return made


def _celu(op: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    made: Value = op.Where(op.Less(x, 0.0), op.Mul(_expm1(op, op.Div(x, alpha)), alpha), x)
    return made


def _leaky_relu(op: Builder, x: Value, *, alpha: float = 0.01) -> Value:
    made: Value = op.Where(op.Less(x, 0.0), op.Mul(x, alpha), x)
    return made


def _prelu(op: Builder, x: Value, slope: Value) -> Value:
    made: Value = op.Where(op.Less(x, 0.0), op.Mul(x, slope), x)
    return made


def _thresholded_relu(op: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    made: Value = op.Where(op.Greater(x, alpha), x, _number(op, 0.0))
    return made


def _hard_sigmoid(op: Builder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """The slope ⅙ is meant exactly, not as the float nearest to it."""
    slope = 1 / 6 if np.float32(alpha) == np.float32(1 / 6) else alpha
    made: Value = op.Max(op.Min(op.Add(op.Mul(x, slope), beta), 1.0), 0.0)
    return made


def _hard_swish(op: Builder, x: Value) -> Value:
    made: Value = op.Mul(x, _hard_sigmoid(op, x, alpha=1 / 6))
    return made


def _gelu(op: Builder, x: Value, *, approximate: str = "none") -> Value:
    """½ x (1 + erf(x/√2)), or with tanh (Hendrycks and Gimpel, 2016)."""
    if approximate == "tanh":
        inner = op.Mul(op.Add(x, op.Mul(op.Mul(op.Mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
        bell = op.Tanh(inner)
    else:
        bell = _erf(op, op.Mul(x, math.sqrt(0.5)))
    made: Value = op.Mul(op.Mul(x, 0.5), op.Add(bell, 1.0))
    return made


def _mish(op: Builder, x: Value) -> Value:
    made: Value = op.Mul(x, op.Tanh(_softplus(op, x)))
    return made


def _softsign(op: Builder, x: Value) -> Value:
    made: Value = op.Div(x, op.Add(op.Abs(x), 1.0))
    return made


SPELLINGS: dict[str, Spelling] = {
    "Acos": _acos,
    "Acosh": _acosh,
    "Asin": _asin,
    "Asinh": _asinh,
    "Atan": _atan,
    "Atanh": _atanh,
    "Celu": _celu,
    "Cosh": _cosh,
    "Elu": _elu,
    "Erf": _erf,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "LeakyRelu": _leaky_relu,
    "Mish": _mish,
    "PRelu": _prelu,
    "Selu": _selu,
    "Sinh": _sinh,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Tan": _tan,
    "ThresholdedRelu": _thresholded_relu,
    "AveragePool": windows.average_pool,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "GlobalAveragePool": windows.global_average_pool,
}
# Whole numbers have exact products and sums, too, and their quotients are cut as torch cuts them.
_WHOLE = frozenset({"Conv", "ConvTranspose", "AveragePool"})


def spelling(op_type: str, dtype: ir.DataType | None) -> Spelling | None:
    """How to say an operator in an element type for which the runtime has no kernel, or None."""
    if dtype == DOUBLE or (dtype == ir.DataType.INT64 and op_type in _WHOLE):
        return SPELLINGS.get(op_type)
    return None
