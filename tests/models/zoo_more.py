"""More architectures: convolutional and recurrent ones, detection, diffusion, audio, experts, two towers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.models.zoo import BATCH, LENGTH, Case, positional, seeded, text, tokens, vision

MORE: dict[str, Any] = {}


def entry(function: Any) -> Any:
    MORE[function.__name__] = function
    return function


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(16, 24, num_layers=2, bidirectional=True)
        self.head = nn.Linear(48, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, hidden = self.gru(x)
        return self.head(out), hidden


@entry
def gru_sequences() -> Case:
    dynamic = ({0: "time", 1: "batch"},)
    return positional(seeded(Sequences), dynamic, (torch.randn(7, 2, 16),), (torch.randn(11, 3, 16),))


@entry
def convnext() -> Case:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 2, 1])
    return vision(seeded(lambda: ConvNextForImageClassification(config)), 64)


@entry
def mobilenet() -> Case:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(depth_multiplier=0.35, image_size=96)
    return vision(seeded(lambda: MobileNetV2ForImageClassification(config)), 96)


@entry
def mobilevit() -> Case:
    from transformers import MobileViTConfig, MobileViTForImageClassification

    return vision(seeded(lambda: MobileViTForImageClassification(MobileViTConfig(image_size=128))), 128)


@entry
def detr() -> Case:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(
        out_features=["stage4"], depths=[1, 1, 1, 1], layer_type="basic", hidden_sizes=[16, 32, 64, 64]
    )
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 10}
    config = DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        use_pretrained_backbone=False,
        backbone_config=backbone,
        **sizes,
        **heads,
    )
    return vision(seeded(lambda: DetrForObjectDetection(config)), 96)


@entry
def segformer() -> Case:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        num_labels=4, hidden_sizes=[8, 16, 16, 16], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 2],
        decoder_hidden_size=16,
    )  # fmt: skip
    return vision(seeded(lambda: SegformerForSemanticSegmentation(config)), 64)


@entry
def unet() -> Case:
    from diffusers import UNet2DModel

    model = seeded(
        lambda: UNet2DModel(
            sample_size=16, block_out_channels=(32, 64), layers_per_block=1,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        )
    )  # fmt: skip

    def inputs(batch: int) -> dict[str, Any]:
        steps = torch.arange(batch) * 3
        return {"sample": torch.randn(batch, 3, 16, 16), "timestep": steps, "return_dict": False}

    dynamic = {"sample": BATCH, "timestep": BATCH, "return_dict": None}
    return Case(model, kwargs=inputs(2), dynamic=dynamic, other_kwargs=inputs(3))


class Decoder(nn.Module):
    def __init__(self) -> None:
        from diffusers import AutoencoderKL

        super().__init__()
        self.vae = AutoencoderKL(
            block_out_channels=(16, 32), norm_num_groups=8,
            down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
            up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"),
        )  # fmt: skip

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        return self.vae.decode(latent, return_dict=False)[0]


@entry
def vae_decoder() -> Case:
    dynamic = ({2: "height", 3: "width"},)
    return positional(seeded(Decoder), dynamic, (torch.randn(1, 4, 8, 8),), (torch.randn(1, 4, 12, 10),))


@entry
def mixture_of_experts() -> Case:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=600, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4,
    )  # fmt: skip
    return text(seeded(lambda: MixtralForCausalLM(config)), use_cache=False)


@entry
def whisper() -> Case:
    from transformers import WhisperConfig, WhisperModel

    sizes = {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_source_positions": 100}
    special = {"vocab_size": 600, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    model = seeded(lambda: WhisperModel(WhisperConfig(**sizes, **heads, **special)))

    def inputs(batch: int, length: int) -> dict[str, Any]:
        sound = torch.randn(batch, 80, 200)
        return {"input_features": sound, "decoder_input_ids": tokens(batch, length), "use_cache": False}

    dynamic = {"input_features": BATCH, "decoder_input_ids": LENGTH, "use_cache": None}
    return Case(model, kwargs=inputs(2, 5), dynamic=dynamic, other_kwargs=inputs(3, 7))


@entry
def speech() -> Case:
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    config = Wav2Vec2Config(
        vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    model = seeded(lambda: Wav2Vec2ForCTC(config))
    return Case(
        model, kwargs={"input_values": torch.randn(2, 2000)}, dynamic={"input_values": LENGTH},
        other_kwargs={"input_values": torch.randn(1, 3200)},
    )  # fmt: skip


@entry
def two_towers() -> Case:
    from transformers import CLIPConfig, CLIPModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    words = {**sizes, "vocab_size": 600, "eos_token_id": 599, "bos_token_id": 598, "pad_token_id": 0}
    model = seeded(lambda: CLIPModel(CLIPConfig(text_config=words, vision_config={**sizes, "image_size": 64})))

    def inputs(batch: int, length: int) -> dict[str, Any]:
        return {"input_ids": tokens(batch, length), "pixel_values": torch.randn(batch, 3, 64, 64)}

    dynamic = {"input_ids": {0: "texts", 1: "length"}, "pixel_values": {0: "images"}}
    return Case(model, kwargs=inputs(2, 9), dynamic=dynamic, other_kwargs=inputs(3, 14))


@entry
def qwen3() -> Case:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=600, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16,
    )  # fmt: skip
    return text(seeded(lambda: Qwen3ForCausalLM(config)), use_cache=False)
