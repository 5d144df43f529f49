"""What is known of single operators of PyTorch's database; all others pass in every element type.

A gap says why: ours (no lowering yet), ORT (the runtime), ONNX (the format), or eager (whose own result is doubtful).
It is strict: a test that passes in spite of its gap fails until the gap is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.ops.opinfo import DTYPES

HALF = ("float16", "bfloat16")
EVERY = tuple(DTYPES)


@dataclass
class Case:
    """What is special about an operator.

    Attributes:
        gaps: reasons by element type.
        tolerance: relative and absolute, by element type.
        order: whether it is defined which of several equal elements is named.
        since: the first opset that can say it.
    """

    gaps: dict[str, str] = field(default_factory=dict)
    tolerance: dict[str, tuple[float, float]] = field(default_factory=dict)
    order: bool = True
    since: int = 18

    def reason(self, dtype: str) -> str | None:
        return self.gaps.get(dtype)

    def xfail(self, dtypes: str | tuple[str, ...], reason: str) -> Case:
        self.gaps |= dict.fromkeys(dtypes.split() if isinstance(dtypes, str) else dtypes, reason)
        return self

    def within(self, dtypes: str | tuple[str, ...], rtol: float, atol: float) -> Case:
        self.tolerance |= dict.fromkeys(dtypes.split() if isinstance(dtypes, str) else dtypes, (rtol, atol))
        return self


KNOWN: dict[str, Case] = {}


def op(*names: str) -> Case:
    """One entry for operators that behave alike."""
    case = Case()
    KNOWN.update(dict.fromkeys(names, case))
    return case


def case_of(name: str) -> Case:
    return KNOWN.get(name, Case())


# -- the table ---------------------------------------------------------------------------------------------

# Which of several equal elements is named is not defined: torch itself answers differently for long rows.
UNORDERED = "argsort kthvalue mode sort topk".split()
for name in UNORDERED:
    op(name).order = False

op("_batch_norm_with_update", "_native_batch_norm_legit").xfail(
    "float32 float64 float16 bfloat16", "ours: the write is not understood"
)
op(
    "__rpow__",
    "acos",
    "acosh",
    "argwhere",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cumprod",
    "diag",
    "diag_embed",
    "diagflat",
    "empty",
    "empty_permuted",
    "empty_strided",
    "exp2",
    "expm1",
    "geqrf",
    "ldexp",
    "linalg.cholesky",
    "linalg.cholesky_ex",
    "linalg.cond",
    "linalg.det",
    "linalg.eigvalsh",
    "linalg.householder_product",
    "linalg.inv",
    "linalg.inv_ex",
    "linalg.lu",
    "linalg.lu_factor",
    "linalg.lu_factor_ex",
    "linalg.lu_solve",
    "linalg.matrix_rank",
    "linalg.matrix_rank.hermitian",
    "linalg.pinv",
    "linalg.pinv.hermitian",
    "linalg.pinv.singular",
    "linalg.qr",
    "linalg.slogdet",
    "linalg.solve",
    "linalg.solve_ex",
    "linalg.solve_triangular",
    "linalg.svdvals",
    "linalg.tensorinv",
    "linalg.tensorsolve",
    "linalg.vander",
    "log1p",
    "logaddexp",
    "logcumsumexp",
    "logdet",
    "logical_or",
    "lu",
    "lu_solve",
    "lu_unpack",
    "masked.cumprod",
    "nn.functional.normalize",
    "nonzero",
    "nonzero_static",
    "norm.nuc",
    "normal.in_place",
    "ormqr",
    "pca_lowrank",
    "pinverse",
    "pow",
    "prod",
    "qr",
    "sinc",
    "std_mean",
    "std_mean.unbiased",
    "svd_lowrank",
    "triangular_solve",
    "uniform",
    "var_mean",
    "var_mean.unbiased",
).xfail("complex64", "ours: no lowering for complex numbers")
op("addbmm").xfail("complex64", "ours: no lowering for complex numbers")
op("hash_tensor").xfail("float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool", "ours: no lowering")
op("linalg.eigh").xfail(
    "float32 float64 complex64",
    "ours: vectors may have another sign than LAPACK's; test_edges_eigen.py tests what holds",
)
op("linalg.eig", "linalg.eigvals").xfail("float32", "ours: no lowering").xfail(
    "complex64", "ours: no lowering for complex numbers"
)
op("linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve").xfail("float32 float64", "ours: no lowering").xfail(
    "complex64", "ours: no lowering for complex numbers"
)
op("linalg.lstsq", "linalg.lstsq.grad_oriented").xfail("float32 float64", "torch: cannot be captured").xfail(
    "complex64", "ours: no lowering for complex numbers"
)
op("linalg.svd", "svd").xfail(
    "float32 complex64", "ours: vectors may have another sign than LAPACK's; test_edges_eigen.py tests what holds"
)
op("matrix_exp").xfail("complex64", "ours: no lowering for complex numbers")
op("igamma", "igammac", "nextafter").xfail("float32 float64 float16 bfloat16", "ours: no lowering")
op("nn.functional.avg_pool2d").xfail("int64", "ours: divisor_override on whole numbers")
op("nn.functional.ctc_loss").xfail("float32 float64", "torch: cannot be captured")
op(
    "_upsample_bilinear2d_aa",
    "nn.functional.interpolate.bicubic",
    "nn.functional.interpolate.bilinear",
    "nn.functional.upsample_bilinear",
).xfail("uint8", "ours: antialiasing and interpolation of whole numbers")
op("nn.functional.margin_ranking_loss").xfail("uint8", "ours: output 0: 1 of 1 values, 0.0 not 232.0")
op(
    "polygamma.polygamma_n_0",
    "polygamma.polygamma_n_1",
    "polygamma.polygamma_n_2",
    "polygamma.polygamma_n_3",
    "polygamma.polygamma_n_4",
    "special.polygamma.special_polygamma_n_0",
).xfail("int16 int8", "eager: gives a large number at some poles")
op("resize_", "resize_as_").xfail(
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool", "ours: the write is not understood"
).xfail("complex64", "ours: no lowering for complex numbers")
op("special.airy_ai").xfail("float32 float64 int64 int32 int16 int8 uint8 bool", "ours: no lowering")

# Volumes are sampled by GridSample, which takes them from opset 20 on.
op("grid_sampler_3d").since = 20
