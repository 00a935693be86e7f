"""Models and methods of suite finetune: the published counts, four bits, folders of weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

import torch
from finetune_models import apply_method, describe_weights, load_model, quantize_nf4, trainable
from finetune_qwen import ARCHITECTURES
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from rentbench.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def tiny(method: str = "lora") -> Any:
    torch.manual_seed(3)
    return load_model("random", method, architecture="tiny", device="cpu")  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny().save_pretrained(tmp_path / "tiny-model")
    return tmp_path / "tiny-model"


@pytest.mark.parametrize(("method", "expected"), [("full", 1_543_714_304), ("lora", 18_464_768)])
def test_the_published_trainable_parameters_come_out(method: Any, expected: int) -> None:
    model = load_model("random", method, architecture="qwen2.5-1.5b", device="meta")
    assert trainable(apply_method(model, method, rank=16, alpha=32)) == expected


def test_full_trains_fp32_weights_and_lora_fp32_adapters_on_bf16() -> None:
    full = apply_method(tiny("full"), "full", rank=16, alpha=32)
    assert {one.dtype for one in full.parameters()} == {torch.float32}
    assert full.training
    lora = apply_method(tiny(), "lora", rank=16, alpha=32)
    types = {(one.requires_grad, one.dtype) for one in lora.parameters()}
    assert types == {(True, torch.float32), (False, torch.bfloat16)}
    adapted = {
        name.split(".lora_A")[0].rsplit(".", 1)[1] for name, _ in lora.named_parameters() if "lora_A" in name
    }
    assert adapted == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    settings = lora.peft_config["default"]
    assert (settings.r, settings.lora_alpha, settings.lora_dropout) == (16, 32, 0.0)


def test_attention_is_sdpa_and_nothing_is_cached() -> None:
    model = tiny()
    assert model.config._attn_implementation == "sdpa"
    assert model.config.use_cache is False
    assert not any(getattr(part, "gradient_checkpointing", False) for part in model.modules())


def test_four_bits_are_those_of_transformers(folder: Path) -> None:
    pytest.importorskip("bitsandbytes")
    settings = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
    )
    theirs = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=settings, dtype=torch.bfloat16, device_map={"": "cpu"}
    )
    ours = quantize_nf4(tiny())
    layers = {name: type(layer).__name__ for name, layer in theirs.named_modules()}
    assert {name: type(layer).__name__ for name, layer in ours.named_modules()} == layers
    assert list(layers.values()).count("Linear4bit") == 2 * 7
    ids = torch.arange(24).reshape(2, 12)
    with torch.no_grad():
        assert torch.equal(ours.train()(ids).logits, theirs.train()(ids).logits)


def test_qlora_trains_the_same_adapters_on_four_bits() -> None:
    pytest.importorskip("bitsandbytes")
    model = apply_method(tiny("qlora"), "qlora", rank=16, alpha=32)
    assert trainable(model) == trainable(apply_method(tiny(), "lora", rank=16, alpha=32))
    types = {(one.requires_grad, one.dtype) for one in model.parameters()}
    # Packed weights are bytes; what is not quantised is fp32, and a bias is bf16 from its first use on.
    assert types == {(True, torch.float32), (False, torch.uint8), (False, torch.float32)}
    assert not any(getattr(part, "gradient_checkpointing", False) for part in model.modules())


@pytest.mark.parametrize("method", ["full", "lora"])
def test_a_folder_gives_its_weights(folder: Path, method: Any) -> None:
    model = load_model(str(folder), method, architecture="qwen2.5-1.5b", device="cpu")
    assert model.config.hidden_size == ARCHITECTURES["tiny"]["hidden_size"]
    for ours, theirs in zip(model.parameters(), tiny().parameters(), strict=True):
        assert torch.equal(ours, theirs.to(ours.dtype))
    assert {one.dtype for one in model.parameters()} == {
        torch.float32 if method == "full" else torch.bfloat16
    }


def test_what_is_no_model_is_told_apart(tmp_path: Path, folder: Path) -> None:
    def load(path: Path) -> None:
        load_model(str(path), "lora", architecture="tiny", device="cpu")

    with pytest.raises(UsageError, match=r"config\.json"):
        load(tmp_path / "nothing")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"bits": 4}}))
    with pytest.raises(UsageError, match="quantised already"):
        load(folder)
    for path in folder.glob("*.safetensors"):
        path.rename(path.with_suffix(".bin"))
    with pytest.raises(UsageError, match="safetensors"):
        load(folder)


def test_files_that_are_torn_or_need_their_own_code_are_told(folder: Path) -> None:
    def load() -> None:
        load_model(str(folder), "lora", architecture="tiny", device="cpu")

    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text("[]")
    with pytest.raises(UsageError, match="no object"):
        load()
    (folder / "config.json").write_text(
        json.dumps(config | {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}})
    )
    with pytest.raises(UsageError, match="cannot be loaded"):
        load()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"torn" * 100)
    with pytest.raises(UsageError, match="cannot be loaded"):
        load()


def test_a_folder_of_the_hubs_cache_names_repository_and_revision(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--Qwen--Qwen2.5-1.5B-Instruct" / "snapshots" / "989aa7980e4c"
    snapshot.mkdir(parents=True)
    assert describe_weights(str(snapshot)) == {
        "kind": "pretrained",
        "repository": "Qwen/Qwen2.5-1.5B-Instruct",
        "revision": "989aa7980e4c",
    }
    assert describe_weights(str(tmp_path))["repository"] == tmp_path.name
    assert describe_weights("random") == {"kind": "random", "repository": None, "revision": None}
