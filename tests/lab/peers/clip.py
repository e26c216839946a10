"""A small random CLIP with both towers and a tokenizer, saved as Hugging Face's own tools do."""

import json
from pathlib import Path
from typing import Any

import pytest

PATCH, GRID, WIDTH, PROJECTED, DEPTH = 8, 5, 24, 16, 3
RESOLUTION = PATCH * GRID


def byte_letters() -> list[str]:
    """The letters that stand for the 256 bytes in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(byte if byte in plain else next(extra)) for byte in range(256)]


def save_clip(
    folder: Path, *, projected: int = PROJECTED, depth: int = DEPTH, patch: int = PATCH
) -> Any:
    """config.json, model.safetensors, vocab.json and merges.txt; returns the model.

    Without torch the test that asks for it is skipped.
    """
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    letters = byte_letters()
    words = [*letters, *(letter + "</w>" for letter in letters), "ph", "pho", "of</w>"]
    words += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {word: place for place, word in enumerate(words)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    merges = "#version: 0.2\np h\nph o\no f</w>\n"
    (folder / "merges.txt").write_text(merges, encoding="utf-8")

    shape = {"num_attention_heads": 2, "num_hidden_layers": depth, "intermediate_size": 32}
    vision = {**shape, "hidden_size": WIDTH, "patch_size": patch, "image_size": GRID * patch}
    text = {**shape, "hidden_size": 20, "vocab_size": len(words)}
    text |= {"bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1}
    text |= {"pad_token_id": len(words) - 1, "max_position_embeddings": 77}
    config = transformers.CLIPConfig(
        vision_config=vision, text_config=text, projection_dim=projected
    )
    torch.manual_seed(5)
    model = transformers.CLIPModel(config).eval()
    for parameter in model.parameters():  # norms and positions must matter too
        parameter.data += 0.2 * torch.randn_like(parameter)
    model.logit_scale.data.fill_(2.0)
    model.save_pretrained(folder)
    return model
