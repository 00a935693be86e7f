"""The Whisper model: a folder in CTranslate2's format, or the same architecture with random weights."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from ctranslate2.converters import Converter
from ctranslate2.converters.transformers import WhisperLoader
from faster_whisper import WhisperModel
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.models.whisper.tokenization_whisper import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["ARCHITECTURES", "Architecture", "build_random_model", "load_model", "whisper_config"]

# Whisper's vocabulary since large-v3: text, then special tokens in this order, then times in steps of 0.02 s.
_TEXT_TOKENS = 50257
_TIMES = 1501
_SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    *(f"<|{language}|>" for language in LANGUAGES),
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
)
_VOCABULARY = _TEXT_TOKENS + len(_SPECIAL_TOKENS) + _TIMES


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Sizes of a Whisper model.

    Attributes:
        width: Of the states between layers.
        feed_forward: Width inside a layer's feed-forward network.
        mel_bands: Frequency bands of the spectrogram that goes in.
    """

    encoder_layers: int
    decoder_layers: int
    heads: int
    width: int
    feed_forward: int
    mel_bands: int


# Sizes of openai/whisper-large-v3-turbo, from its config.json (809 million parameters).
ARCHITECTURES: Mapping[str, Architecture] = {
    "large-v3-turbo": Architecture(
        encoder_layers=32, decoder_layers=4, heads=20, width=1280, feed_forward=5120, mel_bands=128
    ),
    "tiny-random": Architecture(
        encoder_layers=1, decoder_layers=1, heads=2, width=64, feed_forward=128, mel_bands=128
    ),
}


def build_random_model(architecture: Architecture, folder: Path, *, seed: int) -> None:
    """Write a model with random weights in CTranslate2's format, float16, with a tokenizer.

    Its embeddings of everything but text are zero. Since the output layer shares them, those tokens have the
    logit 0, and of 50,257 random logits many are greater: no decoding ends before its limit, so that the work
    is fixed.

    Args:
        architecture: Sizes of the model.
        folder: Does not exist yet. Takes 1.6 GB for large-v3-turbo.
        seed: Of the weights.
    """
    _RandomWhisper(architecture, seed).convert(str(folder), quantization="float16")
    _tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "preprocessor_config.json").write_text(json.dumps({"feature_size": architecture.mel_bands}))


def load_model(folder: Path, *, device: str, compute_type: str) -> WhisperModel:
    """Return the model of a folder, on the first GPU or on the CPU.

    Raises:
        ValueError: The device does not support the compute type.
        RuntimeError: The folder holds no such model, or the device cannot be used.
    """
    return WhisperModel(str(folder), device=device, compute_type=compute_type, local_files_only=True)


def whisper_config(sizes: Architecture) -> WhisperConfig:
    """Return transformers' configuration of an architecture, with large-v3's vocabulary."""
    return WhisperConfig(
        vocab_size=_VOCABULARY,
        num_mel_bins=sizes.mel_bands,
        encoder_layers=sizes.encoder_layers,
        encoder_attention_heads=sizes.heads,
        decoder_layers=sizes.decoder_layers,
        decoder_attention_heads=sizes.heads,
        encoder_ffn_dim=sizes.feed_forward,
        decoder_ffn_dim=sizes.feed_forward,
        d_model=sizes.width,
        bos_token_id=_TEXT_TOKENS,
        eos_token_id=_TEXT_TOKENS,
        pad_token_id=_TEXT_TOKENS,
        decoder_start_token_id=_TEXT_TOKENS + 1,
    )


class _RandomWhisper(Converter):  # type: ignore[misc]  # ctranslate2 is not there when types are checked
    """CTranslate2's own converter of Whisper, given a model that never lay on a disk."""

    def __init__(self, architecture: Architecture, seed: int) -> None:
        self._architecture = architecture
        self._seed = seed

    def _load(self) -> Any:  # noqa: ANN401
        sizes = self._architecture
        torch.manual_seed(self._seed)
        model = WhisperForConditionalGeneration(whisper_config(sizes)).eval()
        with torch.no_grad():
            model.model.decoder.embed_tokens.weight[_TEXT_TOKENS:] = 0
            specification = WhisperLoader().get_model_spec(model)
        specification.register_vocabulary(_vocabulary())
        first_language = _TEXT_TOKENS + 2
        specification.config.lang_ids = list(range(first_language, first_language + len(LANGUAGES)))
        specification.config.suppress_ids = []
        specification.config.suppress_ids_begin = []
        specification.config.alignment_heads = [(sizes.decoder_layers - 1, 0)]
        return specification


def _text_vocabulary() -> list[str]:
    """Return the 256 bytes as byte-level BPE writes them, invented words, and the empty text, by token id.

    A multilingual Whisper has the empty text last; CTranslate2 knows it by that.
    """
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    return [*characters, *(f"Ġw{number}" for number in range(_TEXT_TOKENS - len(characters) - 1)), ""]


def _vocabulary() -> list[str]:
    return [*_text_vocabulary(), *_SPECIAL_TOKENS, *(f"<|{step * 0.02:.2f}|>" for step in range(_TIMES))]


def _tokenizer() -> Tokenizer:
    """Return a byte-level tokenizer with Whisper's token ids, which knows no words of any language."""
    text = {token: number for number, token in enumerate(_text_vocabulary())}
    tokenizer = Tokenizer(models.BPE(vocab=text, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in _SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token) for token in _vocabulary()[-_TIMES:]])
    return tokenizer
