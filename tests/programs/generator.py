"""Random programs: a few lines of PyTorch that eager runs, written down as source, so that a failure can be read.

Each line is drawn from a table of templates; a line that eager refuses on the values at hand is dropped
and another one is drawn. Views, writes through them, integer and bool arithmetic and sizes of dynamic
dims are all among the templates.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch

# {x} {y}: tensors; {f}: a floating one; {n}: an integer one; {b}: a bool one; {d} {e}: dims; {k}: a small int;
# {c}: a number; {s}: a size of a tensor's axis.
TEMPLATES = {
    "arithmetic": [
        "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} + {c}", "{c} - {x}", "{x} * {c}", "{x} / {y}", "{x} / {c}",
        "{x} // {k}", "{x} % {k}", "{n} // {n}.abs().clamp(min=1)", "{n} % -3", "-{x}", "{x}.abs()",
        "{x} ** 2", "{n} ** 5", "2 ** {n}.abs()",
        "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "{x}.clamp({c}, 2.5)", "{x}.clamp(min={k})",
        "torch.where({x} > {c}, {x}, {y})", "{x}.sign()", "{f}.floor()", "{f}.round()", "{f}.trunc()", "{f}.frac()",
        "torch.remainder({x}, {c})", "torch.fmod({x}, 2)", "torch.lerp({f}, {f}, 0.25)",
        "{f}.addcmul({f}, {f}, value=0.5)",
        "{x}.square()", "torch.div({x}, {k}, rounding_mode='trunc')", "torch.div({x}, {c}, rounding_mode='floor')",
        "torch.rsub({x}, {k})", "{n} << 1", "{n} >> 1", "{n} & {k}", "{n} ^ {k}", "~{n}", "{x} - {s}", "{x} * {s}",
    ],
    "functions": [
        "{f}.exp().clamp(max=50)", "{f}.sigmoid()", "{f}.tanh()", "{f}.abs().sqrt()", "{f}.sin()", "{f}.cos()",
        "({f}.abs() + 1).log()", "{f}.erf()", "F.relu({f})", "F.gelu({f})", "F.silu({f})", "F.softplus({f})",
        "F.elu({f})", "F.leaky_relu({f}, 0.1)", "F.hardswish({f})", "F.softmax({f}, {d})", "F.log_softmax({f}, {d})",
        "F.normalize({f}, dim={d})", "({f}.abs() + 0.5).rsqrt()", "({f}.abs() + 0.5).reciprocal()", "{f}.atan()",
        "F.layer_norm({f}, {f}.shape[-1:])", "torch.nan_to_num({f})", "F.glu({f}, {d})", "{f}.logit(1e-3)",
    ],
    "reductions": [
        "{x}.sum()", "{x}.sum({d})", "{x}.sum({d}, keepdim=True)", "{f}.mean()", "{f}.mean({d}, keepdim=True)",
        "{x}.amax({d})", "{x}.amin({d}, keepdim=True)", "{x}.max()", "{x}.argmax({d})", "{x}.argmin({d}, keepdim=True)",
        "{f}.var({d}, correction=0)", "{f}.std({d}, correction=0, keepdim=True)", "({x} > {c}).any({d})",
        "({x} > {c}).all()", "{x}.prod({d})", "{f}.logsumexp({d})", "{x}.cumsum({d})", "{x}.count_nonzero()",
        "{x}.max({d})[0]", "{x}.min({d})[0]", "{f}.norm(dim={d})", "torch.median({f}, {d})[0]", "{x}.cummax({d})[0]",
        "{x}.sort({d})[0]", "{x}.sort({d}, descending=True)[0]", "{x}.float().topk(1, {d})[0]", "{f}.diff(dim={d})",
    ],
    "shapes": [
        "{x}.transpose({d}, {e})", "{x}.unsqueeze({d})", "{x}.squeeze()", "{x}.flatten()", "{x}.flatten({d})",
        "{x}.reshape(-1)", "{x}.reshape({x}.shape[0], -1)", "{x}.permute(*range({x}.dim() - 1, -1, -1))",
        "{x}.expand(2, *{x}.shape)", "torch.cat([{x}, {y}], {d})", "torch.stack([{x}, {y}], {d})", "{x}.flip({d})",
        "{x}.roll({k}, {d})", "{x}.repeat(2, *[1] * ({x}.dim() - 1))", "{x}.chunk(2, {d})[0]", "{x}.split(1, {d})[-1]",
        "{x}.unbind({d})[0]", "{x}.narrow({d}, 0, 1)", "{x}[..., ::2]", "{x}[1:]", "{x}[-1]", "{x}[:, 1:]",
        "{x}[..., -1]",
        "{x}[..., None]", "{x}.movedim({d}, {e})", "{x}.tril()", "{x}.triu(1)", "{x}.diagonal()",
        "{x}.unfold({d}, 2, 1)",
        "{x}.repeat_interleave(2, {d})", "F.pad({x}, (1, 2))", "F.pad({f}, (-1, 1), value=3.0)", "{x}.tile(2)",
        "{x}.index_select({d}, torch.tensor([0, 0]))", "{x}.gather({d}, {n}.clamp(0, 0))", "{x}[[0, 0]]",
        "{x}.take(torch.tensor([0, -1]))", "{x}.swapaxes(0, -1)", "{x}.view({x}.shape)", "{x}.clone()",
        "{x}.masked_fill({x} > {c}, {k})", "torch.arange({s}) + {k}", "torch.zeros({s}, 2)", "torch.full(({s},), {c})",
        "{x}.new_ones({s})", "torch.ones_like({x})", "{x}.unflatten(0, (1, -1))",
        "torch.broadcast_to({x}, (2, *{x}.shape))",
    ],
    "products": [
        "{f} @ {f}.transpose(-1, -2)", "torch.matmul({f}, {f})", "torch.einsum('...i,...i->...', {f}, {f})",
        "F.linear({f}, torch.ones(3, {f}.shape[-1]))", "torch.outer({f}.flatten(), {f}.flatten()[:2])",
        "torch.cdist({f}.reshape(1, -1, 1), {f}.reshape(1, -1, 1)[:, :3])",
    ],
    "types": [
        "{x}.float()", "{x}.double()", "{x}.long()", "{x}.int()", "{x}.bool()", "{x}.to(torch.uint8)",
        "{x}.half().float()",
        "{x} > {y}", "{x} == {y}", "{x} <= {c}", "{x} != {k}", "{b} & {b}", "{b} | {b}", "~{b}", "{b} ^ {b}",
        "{b}.float() * {c}", "torch.logical_not({x})", "{f}.isnan()", "1.0 - {b}.to(torch.int64)", "{n} * 1.5",
        "{b} + {b}",
    ],
}  # fmt: skip
# {v}: a tensor that the program made (never an input); each writes and gives nothing new.
WRITES = [
    "{v}.add_({c})", "{v}.mul_({k})", "{v}[0] = {k}", "{v}[..., 0] = {c}", "{v}[1:] += {k}", "{v}[..., ::2] *= 2",
    "{v}.transpose({d}, {e}).add_(1)", "{v}[0].zero_()", "{v}.fill_({k})", "{v}.clamp_(-1, 1)", "{v}.copy_({x})",
    "{v}.masked_fill_({v} > {c}, {k})", "{v}[{v} > {c}] = {k}", "{v}.flatten()[0] = {k}", "{v}.view(-1)[1:].mul_(3)",
    "{v}.neg_()", "{v}.unsqueeze_(0)", "{v}.index_fill_({d}, torch.tensor([0]), {k})", "{v}[-1] = {x}",
    "{v}.diagonal().add_(1)",
    "{v}.select({d}, 0).sub_(2)", "{v}.relu_()", "{v}.squeeze_()", "{v}.t_()", "{v}[[0, -1]] = {k}",
    "{v}.narrow({d}, 0, 1).mul_(-1)",
]  # fmt: skip
SHAPES = [(3, 4), (2, 3, 4), (4,), (2, 3), (1, 4), (3, 1, 4), (), (2, 2, 3, 4)]
MOST_ELEMENTS = 4000


@dataclass
class Program:
    """Source lines of a forward, its example inputs and which of their first axes are dynamic."""

    seed: int
    inputs: dict[str, torch.Tensor]
    dynamic: bool
    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        body = [f"    {line}" for line in [*self.lines, f"return {', '.join(self.results)},"]]
        return "\n".join([f"def forward({', '.join(self.inputs)}):", *body])

    def function(self) -> Any:
        scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.source, f"<program {self.seed}>", "exec"), scope)
        return scope["forward"]

    def other_inputs(self) -> list[torch.Tensor]:
        """Inputs of the same kinds; with one more row where the first axis is dynamic."""
        rng = torch.Generator().manual_seed(self.seed + 1)
        rows = [value.shape[0] + 1 if self.dynamic and value.dim() else None for value in self.inputs.values()]
        return [
            draw((row, *value.shape[1:]) if row else tuple(value.shape), value.dtype, rng)
            for value, row in zip(self.inputs.values(), rows, strict=True)
        ]


def draw(shape: tuple[int, ...], dtype: torch.dtype, rng: torch.Generator) -> torch.Tensor:
    """Numbers that are multiples of 1/8, so that sums are exact and ties occur."""
    whole = torch.randint(-24, 25, shape, generator=rng)
    if dtype == torch.bool:
        return whole > 0
    return (whole / 8).to(dtype) if dtype.is_floating_point else (whole // 4).to(dtype)


def generate(seed: int, length: int = 8) -> Program:
    """A program of about ``length`` lines; the same for the same seed."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    names = ["a", "b", "c"][: rng.randint(1, 3)]
    base = rng.choice(SHAPES)
    dynamic = rng.random() < 0.5 and len(base) > 0 and base[0] > 1  # one row is special to squeeze and split
    inputs = {}
    for name in names:
        shape = base if dynamic or rng.random() < 0.6 else rng.choice(SHAPES)
        dtype = rng.choice([torch.float32] * 4 + [torch.int64, torch.float64, torch.bool, torch.int32])
        inputs[name] = draw(tuple(shape), dtype, generator)
    program = Program(seed, inputs, dynamic)
    scope: dict[str, Any] = {name: value.clone() for name, value in inputs.items()}
    for _ in range(length):
        for _ in range(30):
            if _add_line(program, scope, rng):
                break
    made = [name for name in scope if name.startswith("v")]
    program.results = made[-3:] or [names[0] + ".clone()"]
    return program


def _add_line(program: Program, scope: dict[str, Any], rng: random.Random) -> bool:
    """Draw a line and run it; False when eager refuses it or the result is of no use."""
    made = [name for name in scope if name.startswith("v")]
    write = bool(made) and rng.random() < 0.25
    template = rng.choice(WRITES) if write else rng.choice(TEMPLATES[rng.choice(list(TEMPLATES))])
    text = _filled(template, scope, made, rng)
    if text is None:
        return False
    name = f"v{len(made)}"
    line = text if write else f"{name} = {text}"
    trial = {key: value.clone() for key, value in scope.items()}
    spaces = {"torch": torch, "F": torch.nn.functional}
    try:
        exec(line, spaces, trial)  # on copies first: a write may fail half-way
        exec(line, spaces, scope)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, AssertionError, AttributeError):
        return False
    result = scope.get(name)
    if not write and (not isinstance(result, torch.Tensor) or result.numel() > MOST_ELEMENTS or result.is_complex()):
        del scope[name]
        return False
    program.lines.append(line)
    return True


def _filled(template: str, scope: dict[str, Any], made: list[str], rng: random.Random) -> str | None:
    kinds = {
        "f": [name for name, value in scope.items() if value.is_floating_point()],
        "n": [n for n, v in scope.items() if not v.is_floating_point() and v.dtype != torch.bool],
        "b": [name for name, value in scope.items() if value.dtype == torch.bool],
        "x": list(scope), "y": list(scope), "v": made,
    }  # fmt: skip
    text = template
    for kind, names in kinds.items():
        if "{" + kind + "}" in text and not names:
            return None
        same = rng.choice(names) if names else ""
        # One tensor for every {x} of a line; a new draw for each {f}, {n} and {b}.
        while "{" + kind + "}" in text:
            chosen = same if kind in "xv" else rng.choice(names)
            text = text.replace("{" + kind + "}", chosen, 1)
    sized = [name for name, value in scope.items() if value.dim()]
    size = f"{rng.choice(sized)}.shape[0]" if sized else "3"
    return (
        text.replace("{d}", str(rng.randint(-2, 1))).replace("{e}", str(rng.randint(-2, 1)))
        .replace("{k}", str(rng.choice([1, 2, 3]))).replace("{c}", str(rng.choice([0.5, 1, -0.25, 2.0])))
        .replace("{s}", size)
    )  # fmt: skip
