"""Real architectures with random weights, each with example inputs of two sizes.

Every entry returns a ``Case``: shapes marked by plain strings are dynamic and named so in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

BATCH, LENGTH = {0: "batch"}, {0: "batch", 1: "length"}


@dataclass(slots=True)
class Case:
    """A model in eval mode, example inputs, the dynamic shapes, and inputs of another size."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic: Any = None
    other_args: tuple[Any, ...] = ()
    other_kwargs: dict[str, Any] = field(default_factory=dict)


ZOO: dict[str, Callable[[], Case]] = {}


def entry(function: Callable[[], Case]) -> Callable[[], Case]:
    ZOO[function.__name__] = function
    return function


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(1, 500, (batch, length))


def positional(model: nn.Module, dynamic: Any, first: tuple[Any, ...], second: tuple[Any, ...]) -> Case:
    return Case(model, args=first, dynamic=dynamic, other_args=second)


def vision(model: nn.Module, size: int = 224) -> Case:
    first, second = ({"pixel_values": torch.randn(batch, 3, size, size)} for batch in (2, 3))
    return Case(model, kwargs=first, dynamic={"pixel_values": BATCH}, other_kwargs=second)


def text(model: nn.Module, **fixed: Any) -> Case:
    def inputs(batch: int, length: int) -> dict[str, Any]:
        mask = torch.ones(batch, length, dtype=torch.long)
        return dict(input_ids=tokens(batch, length), attention_mask=mask, **fixed)

    dynamic = {"input_ids": LENGTH, "attention_mask": LENGTH, **dict.fromkeys(fixed)}
    return Case(model, kwargs=inputs(2, 12), dynamic=dynamic, other_kwargs=inputs(3, 19))


@entry
def mlp() -> Case:
    model = seeded(lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    return positional(model, (BATCH,), (torch.randn(2, 64),), (torch.randn(5, 64),))


class Tagger(nn.Module):
    """Embedding, two bidirectional LSTM layers, linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 32)
        self.lstm = nn.LSTM(32, 48, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(96, 7)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.embed(words))
        return self.head(hidden)


@entry
def lstm_tagger() -> Case:
    return positional(seeded(Tagger), (LENGTH,), (tokens(2, 9),), (tokens(4, 15),))


@entry
def transformer_encoder() -> Case:
    model = seeded(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2))
    return positional(model, (LENGTH,), (torch.randn(2, 10, 64),), (torch.randn(3, 17, 64),))


@entry
def resnet50() -> Case:
    from transformers import ResNetConfig, ResNetForImageClassification

    return vision(seeded(lambda: ResNetForImageClassification(ResNetConfig())))


@entry
def vit_base() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    return vision(seeded(lambda: ViTForImageClassification(ViTConfig())))


@entry
def swin_tiny() -> Case:
    from transformers import SwinConfig, SwinForImageClassification

    return vision(seeded(lambda: SwinForImageClassification(SwinConfig())))


@entry
def bert_base() -> Case:
    from transformers import BertConfig, BertModel

    return text(seeded(lambda: BertModel(BertConfig(vocab_size=1000))))


@entry
def gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    return text(seeded(lambda: GPT2LMHeadModel(GPT2Config(vocab_size=1000))), use_cache=False)


def llama(layers: int, width: int, inner: int, heads: int, kv_heads: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=1000, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads,
    )  # fmt: skip
    return seeded(lambda: LlamaForCausalLM(config))


@entry
def llama_small() -> Case:
    return text(llama(16, 512, 1376, 8, 4), use_cache=False)


class CacheStep(nn.Module):
    """One decoding step with the key and value cache as inputs and outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, past: Any) -> Any:
        from transformers.cache_utils import DynamicCache

        cache = DynamicCache([(key, value) for key, value in past])
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        return out.logits, [(layer.keys, layer.values) for layer in out.past_key_values.layers]


@entry
def llama_kv_cache() -> Case:
    def inputs(batch: int, past: int, new: int) -> tuple[Any, ...]:
        cache = [(torch.randn(batch, 2, past, 32), torch.randn(batch, 2, past, 32)) for _ in range(2)]
        return tokens(batch, new), torch.ones(batch, past + new, dtype=torch.long), cache

    pair = ({0: "batch", 2: "past"},) * 2
    dynamic = ({0: "batch", 1: "new"}, {0: "batch", 1: "total"}, [pair, pair])
    return positional(CacheStep(llama(2, 128, 256, 4, 2)).eval(), dynamic, inputs(2, 6, 3), inputs(3, 9, 2))


@entry
def t5() -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=1000, d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4)

    def inputs(batch: int, source: int, target: int) -> dict[str, Any]:
        return {"input_ids": tokens(batch, source), "decoder_input_ids": tokens(batch, target), "use_cache": False}

    dynamic = {"input_ids": {0: "batch", 1: "source"}, "decoder_input_ids": {0: "batch", 1: "target"}}
    dynamic["use_cache"] = None
    model = seeded(lambda: T5ForConditionalGeneration(config))
    return Case(model, kwargs=inputs(2, 9, 5), dynamic=dynamic, other_kwargs=inputs(3, 14, 6))
