"""Models and the three methods: all weights, LoRA, and LoRA on a base of four bits."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from finetune_qwen import ARCHITECTURES
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, Qwen2Config

from rentbench.core.errors import UsageError

__all__ = [
    "RANDOM",
    "Method",
    "apply_method",
    "describe_weights",
    "load_model",
    "missing_for",
    "quantize_nf4",
    "trainable",
]

Model: TypeAlias = Any  # transformers is not installed where types are checked
Method: TypeAlias = Literal["full", "lora", "qlora"]

RANDOM = "random"
_HUB_FOLDER = "models--"  # the hub's cache: models--OWNER--NAME/snapshots/REVISION


def load_model(weights: str, method: Method, *, architecture: str, device: str) -> Model:
    """Return a causal language model: in fp32 for `full`, in bf16 as a frozen base for the others.

    Args:
        weights: "random", or a folder with config.json, safetensors and a tokenizer.
        method: What it will be trained by.
        architecture: One of `ARCHITECTURES`, for random weights.
        device: Where it is built ("meta": shapes only).

    Raises:
        UsageError: The folder holds no such model, or one that is quantised already.
    """
    dtype = torch.float32 if method == "full" else torch.bfloat16
    if weights == RANDOM:
        config = Qwen2Config(**ARCHITECTURES[architecture], rope_theta=1e6)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    else:
        folder = _model_folder(weights)
        model = _read_model(folder, dtype).to(device)
    model.config.use_cache = False
    return model


def apply_method(model: Model, method: Method, *, rank: int, alpha: int) -> Model:
    """Return the model with what the method trains set to be trained, in training mode.

    Adapters go on every linear layer but the output: all attention and MLP projections. PEFT holds them in
    fp32. For `qlora` these layers are quantised to NF4 before, and the rest is cast to fp32, as
    `prepare_model_for_kbit_training` does.
    """
    if method != "full":
        if method == "qlora":
            model = prepare_model_for_kbit_training(quantize_nf4(model), use_gradient_checkpointing=False)
        adapters = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear", task_type="CAUSAL_LM")
        model = get_peft_model(model, adapters)
    return model.train()


def quantize_nf4(model: Model) -> Model:
    """Replace every linear layer but the output's by bitsandbytes' NF4 layer with bf16 arithmetic.

    The same layers as transformers' `BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")` makes
    (a test compares them); that needs a checkpoint in a folder, and random weights have none.
    """
    import bitsandbytes

    output = model.get_output_embeddings()
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is not torch.nn.Linear or layer is output:
                continue
            new = bitsandbytes.nn.Linear4bit(
                layer.in_features,
                layer.out_features,
                bias=layer.bias is not None,
                compute_dtype=torch.bfloat16,
                compress_statistics=False,
                quant_type="nf4",
                device="meta",
            )
            weight = bitsandbytes.nn.Params4bit(
                layer.weight.data, requires_grad=False, compress_statistics=False, quant_type="nf4"
            )
            new.weight = weight.to(layer.weight.device)  # this is what quantises it
            new.bias = layer.bias
            # On a CPU it would pack the weights at the first evaluation, and could not train with them after.
            new.support_avx512bf16_for_cpu = False
            setattr(parent, name, new)
    model.is_loaded_in_4bit = True
    return model


def missing_for(method: Method) -> str | None:
    """Return the package that the method needs and that is not installed, or None."""
    if method == "qlora" and importlib.util.find_spec("bitsandbytes") is None:
        return "bitsandbytes"
    return None


def trainable(model: Model) -> int:
    """Return the number of parameters that are trained; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def describe_weights(weights: str) -> dict[str, str | None]:
    """Return the weights in the result's form; a folder of the hub's cache tells repository and revision."""
    if weights == RANDOM:
        return {"kind": "random", "repository": None, "revision": None}
    folder = Path(weights).resolve()
    for parent in (folder, *folder.parents):
        if parent.name.startswith(_HUB_FOLDER):
            repository = parent.name.removeprefix(_HUB_FOLDER).replace("--", "/")
            return {"kind": "pretrained", "repository": repository, "revision": folder.name}
    return {"kind": "pretrained", "repository": folder.name, "revision": None}


def _read_model(folder: Path, dtype: torch.dtype) -> Model:
    try:
        return AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        msg = f"weights={folder} cannot be loaded: {error}"
        hint = "the files must be whole, and of an architecture that this release of transformers has itself"
        raise UsageError(msg, hint=hint) from error


def _model_folder(weights: str) -> Path:
    folder = Path(weights)
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        msg = f"weights={weights} holds no readable config.json: {error}"
        hint = "give a folder with config.json, *.safetensors and a tokenizer, or weights=random"
        raise UsageError(msg, hint=hint) from error
    if not isinstance(config, dict):
        msg = f"weights={weights} holds a config.json that is no object"
        raise UsageError(msg, hint="give the model's own config.json")
    if not list(folder.glob("*.safetensors")):
        msg = f"weights={weights} holds no *.safetensors"
        raise UsageError(msg, hint="other formats can run code when they are read, and are refused")
    if "quantization_config" in config:
        msg = f"weights={weights} is quantised already"
        raise UsageError(msg, hint="give the unquantised model: qlora quantises it itself")
    return folder
