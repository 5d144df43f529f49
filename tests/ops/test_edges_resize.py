"""Resizing: rounding of nearest, scales against sizes, antialiasing, dynamic sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from onnx_lab.errors import UnsupportedCaseError
from tests.ops.harness import check

SHAPES = {1: (9,), 2: (9, 7), 3: (5, 6, 7)}
SMOOTH = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
CASES = [
    (spatial, mode, corners)
    for spatial in (1, 2, 3)
    for mode, choices in (
        *((m, (None,)) for m in ("nearest", "nearest-exact")),
        *((m, (False, True)) for m in SMOOTH[spatial]),
    )
    for corners in choices
]
SCALES = (2, 3, 0.5, 0.7, 1 / 3, 1.1, 1.25, 2.3)


def image(spatial: int, grow: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, *(size + grow for size in SHAPES[spatial]))


def dynamic(spatial: int) -> dict[str, Any]:
    size = ({0: Dim.DYNAMIC, **{axis + 2: Dim.DYNAMIC for axis in range(spatial)}},)
    return {"dynamic": size, "again": [(image(spatial, 3),), (image(spatial, -1),)]}


@pytest.mark.parametrize(("spatial", "mode", "corners"), CASES)
class TestModes:
    @pytest.mark.parametrize("size", [(5, 11, 13), (18, 14, 12), (1, 1, 1), (9, 7, 7)], ids=str)
    def test_to_a_size(self, spatial: int, mode: str, corners: bool | None, size: tuple[int, ...]) -> None:
        def resize(x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, size=size[:spatial], mode=mode, align_corners=corners)

        for opset in (18, 23):
            check(resize, image(spatial), opset=opset)
        check(resize, image(spatial), **dynamic(spatial))

    @pytest.mark.parametrize("scale", SCALES)
    @pytest.mark.parametrize("recompute", [False, True])
    def test_by_a_scale(self, spatial: int, mode: str, corners: bool | None, scale: float, recompute: bool) -> None:
        def resize(x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(
                x, scale_factor=scale, mode=mode, align_corners=corners, recompute_scale_factor=recompute
            )

        check(resize, image(spatial))
        if not recompute and not (mode == "bicubic" and scale in (0.7, 1 / 3, 1.1, 1.25, 2.3)):
            check(resize, image(spatial), **dynamic(spatial))

    def test_other_types(self, spatial: int, mode: str, corners: bool | None) -> None:
        def resize(x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, scale_factor=1.5, mode=mode, align_corners=corners)

        check(resize, image(spatial).half(), rtol=1e-2, atol=1e-2)
        check(resize, image(spatial).double(), rtol=1e-9)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    "options", [{"size": size} for size in ((5, 4), (18, 14), (1, 1), (3, 20))] + [{"scale_factor": s} for s in SCALES],
    ids=str,
)  # fmt: skip
def test_antialiased(mode: str, corners: bool, options: dict[str, Any]) -> None:
    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, mode=mode, align_corners=corners, antialias=True, **options)

    check(resize, image(2))
    check(resize, image(2), **dynamic(2))


def test_nearest_at_every_ratio() -> None:
    """The indices are torch's for small and large images alike."""
    for size in (1, 2, 3, 7, 10):
        x = torch.arange(size).float().expand(1, 3, 2, size).contiguous()
        for out in (1, 3, 41, 49, 83, 127, 141, 166):
            for mode in ("nearest", "nearest-exact"):
                check(lambda x, out=out, mode=mode: F.interpolate(x, size=(2, out), mode=mode), x)


def test_to_the_size_of_another_tensor() -> None:
    size = {2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    for mode in ("nearest", "bilinear"):
        check(
            lambda x, y, mode=mode: F.interpolate(x, size=y.shape[2:], mode=mode), image(2), torch.randn(1, 1, 7, 13),
            dynamic=(size, size), again=[(image(2, 2), torch.randn(1, 1, 20, 5))],
        )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "upsample_nearest2d",
        "_upsample_nearest_exact2d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_lanczos2d_aa",
    ],
)
def test_what_decompositions_call(name: str) -> None:
    flags = () if "nearest" in name else (False,)
    check(lambda x: getattr(torch.ops.aten, name)(x, [5, 12], *flags), image(2))


def test_integers() -> None:
    check(lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (image(2) * 50).to(torch.uint8))
    with pytest.raises(UnsupportedCaseError, match="input="):
        check(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (image(2) * 50).to(torch.uint8))


def test_whole_numbers_are_one_node() -> None:
    for mode, factor in (("nearest", 2), ("bilinear", 2), ("bicubic", 1.5)):
        result = check(lambda x, m=mode, f=factor: F.interpolate(x, scale_factor=f, mode=m), image(2))
        assert [node.op_type for node in result.model.graph] == ["Resize"]
