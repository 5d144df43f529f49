"""torch.fft: every function, sizes that cut and fill, norms, real and complex operands."""

from __future__ import annotations

import pytest
import torch

from tests.ops.harness import check

ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
TAKES_COMPLEX = {"fft", "ifft", "irfft", "hfft"}


@pytest.mark.parametrize("norm", [None, "ortho", "forward", "backward"])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_one_axis(name: str, norm: str | None) -> None:
    function = getattr(torch.fft, name)
    x = torch.randn(3, 6, 5)
    check(lambda x: (function(x, norm=norm), function(x, n=4, dim=1, norm=norm), function(x, n=9, norm=norm)), x)
    check(lambda x: function(x, n=3, norm=norm), torch.randn(5))
    if name in TAKES_COMPLEX:
        z = torch.randn(3, 6, 5, dtype=torch.complex64)
        check(lambda z: (function(z, norm=norm), function(z, n=8, dim=0, norm=norm)), z)


@pytest.mark.parametrize("name", ONE_AXIS)
def test_several_axes(name: str) -> None:
    plane, many = getattr(torch.fft, name + "2"), getattr(torch.fft, name + "n")
    x = torch.randn(3, 6, 5)
    check(lambda x: (plane(x), plane(x, s=(4, 7), dim=(0, 1), norm="ortho"), many(x), many(x, s=(8,))), x)
    check(lambda x: plane(x, s=(4, -1)), x, dynamic=[{0: "batch"}], again=[(torch.randn(2, 6, 5),)])


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bool])
def test_types(dtype: torch.dtype) -> None:
    check(lambda x: (torch.fft.fft(x), torch.fft.rfft(x)), torch.tensor([[1, 0, 3], [1, 1, 0]]).to(dtype))


@pytest.mark.parametrize("onesided", [True, False])
def test_istft_from_half_and_from_whole_spectra(onesided: bool) -> None:
    window = torch.hann_window(8)
    signal = torch.randn(2, 40)
    spectrum = torch.stft(signal, 8, 2, window=window, onesided=onesided, return_complex=True)
    check(lambda z, w: torch.istft(z, 8, 2, window=w, onesided=onesided), spectrum, window)


def test_a_dynamic_length() -> None:
    def transforms(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.fft.fft(x, dim=1), torch.fft.rfft(x, dim=1, norm="ortho"), torch.fft.fftn(x).real

    check(transforms, torch.randn(2, 7, 3), dynamic=[{0: "b", 1: "t"}], again=[(torch.randn(3, 12, 3),)])
