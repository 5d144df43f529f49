"""The loss of alignments: padded and joined texts, texts that do not fit, single samples, dynamic sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.ops.harness import check

GENERATOR = torch.Generator().manual_seed(3)
LOGITS = torch.randn(12, 3, 6, generator=GENERATOR).log_softmax(-1)
PADDED = torch.tensor([[1, 1, 2, 5], [3, 77, -1, 0], [2, 2, 2, 2]])
FRAMES, LENGTHS = torch.tensor([12, 5, 7]), torch.tensor([4, 1, 4])
loss: Any = torch.nn.functional.ctc_loss


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_texts(reduction: str, zero_infinity: bool) -> None:
    def padded(x: torch.Tensor, text: torch.Tensor, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return loss(x, text, frames, lengths, reduction=reduction, zero_infinity=zero_infinity)

    check(padded, LOGITS, PADDED, FRAMES, LENGTHS)
    check(padded, LOGITS.double(), PADDED.int(), FRAMES, LENGTHS, rtol=1e-10, atol=1e-12)
    # The last text needs 7 frames: its labels are alike.
    check(padded, LOGITS, PADDED, torch.tensor([12, 1, 6]), LENGTHS)
    check(padded, LOGITS, PADDED, FRAMES, torch.tensor([0, 1, 0]))


def test_joined_texts_and_lengths_known_beforehand() -> None:
    joined = torch.cat([PADDED[row, :count] for row, count in enumerate(LENGTHS.tolist())])
    check(lambda x, text: loss(x, text, (12, 5, 7), (4, 1, 4), blank=4), LOGITS, joined)
    check(lambda x, text, n: loss(x, text, FRAMES, n), LOGITS, joined, LENGTHS)


def test_a_single_sample() -> None:
    check(lambda x, text: loss(x, text, torch.tensor(9), torch.tensor(3)), LOGITS[:, 0], torch.tensor([1, 1, 5]))


def test_improbable_texts_and_many_frames() -> None:
    check(lambda x: loss(x, PADDED, FRAMES, LENGTHS, reduction="none"), (LOGITS * 50).log_softmax(-1))
    many = torch.randn(300, 1, 4, generator=GENERATOR).log_softmax(-1)
    text = torch.randint(1, 4, (1, 90), generator=GENERATOR)
    check(lambda x: loss(x, text, torch.tensor([300]), torch.tensor([90])), many)


def test_dynamic_sizes() -> None:
    names = [{0: "frames", 1: "samples"}, {0: "samples", 1: "labels"}, {0: "samples"}, {0: "samples"}]
    other = (LOGITS[:4, :2], PADDED[:2, :2], torch.tensor([4, 3]), torch.tensor([2, 1]))
    check(
        lambda x, text, frames, lengths: loss(x, text, frames, lengths, reduction="none"),
        LOGITS,
        PADDED,
        FRAMES,
        LENGTHS,
        dynamic=names,
        again=[other],
    )
