"""Published tables: the figures of training and inference pages, as their authors printed them.

Each table of facts is a JSON file of its own form, known by its keys. What is printed stays as it is
printed, a cell that contradicts its own table with a note, and no formula is bent for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rentbench.core.documents import read_document, sha256_file
from rentbench.core.errors import InvalidDocumentError
from rentbench.references.documents import Case, Device, Measured, Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["is_published_table", "read_published"]

_VARIANTS = {
    "plain DDP": "plain",
    "bf16 gradients": "bf16_gradients",
    "accumulate 4": "accumulate_4",
    "both": "both",
}
_ACCESS = {"NCCL_P2P_LEVEL=SYS": "p2p_sys"}


def is_published_table(content: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is one of the tables that are known here."""
    return _reader(content) is not None


def read_published(path: Path) -> list[Reference]:
    """Return the documents that a table of published figures gives.

    Raises:
        UnusableInputError: The file cannot be read.
        InvalidDocumentError: It is no table that is known here, or lacks a part.
    """
    content = read_document(path)
    reader = _reader(content)
    if reader is None:
        msg = f"{path} is no table of published figures that is known here"
        raise InvalidDocumentError(msg, hint="write a document of kind published by hand: docs/prices.md")
    try:
        return list(reader(content, sha256_file(path)))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        msg = f"{path} lacks a part of its table: {error!r}"
        raise InvalidDocumentError(msg) from error


def _reader(
    content: Mapping[str, Any],
) -> Callable[[Mapping[str, Any], str], Iterator[Reference]] | None:
    if "one_gpu_tokens_per_s_with_accumulation_4" in content:
        return _ddp_training
    if "price_run_day_usd_per_hour" in content and "rows" in content:
        return _finetune
    if "known" in content and "sweep" in content:
        return _llm_serving
    if "headlines" in content:
        return _headlines
    return None


def _price(
    amount: float, day: str, source: str, *, per: str = "gpu-hour", gpus: int | None = 1
) -> dict[str, Any]:
    moment = day if "T" in day else f"{day}T00:00:00Z"
    return {
        "amount": amount,
        "currency": "USD",
        "per": per,
        "gpu_count": gpus,
        "source": source,
        "retrieved_at": moment,
    }


def _ddp_training(content: Mapping[str, Any], sha256: str) -> Iterator[Reference]:
    source, day, gpus = content["source"], content["run_date"], content["gpus"]
    today = content["price_today"]
    shared: dict[str, Any] = {
        "label": "published",
        "source": source,
        "sha256": sha256,
        "run_date": day,
        "device": Device(gpu_name="RTX A6000", gpu_count=gpus, gpu_memory_gb=48, detail=content["machine"]),
        "software": {"torch": content["torch"]},
        "price": _price(
            content["price_run_day_usd_per_machine_hour"], day, source, per="machine-hour", gpus=gpus
        ),
        "price_today": _price(today["usd_per_gpu_hour"], today["read_at"], source),
    }
    yield Reference(
        title=f"Data-parallel training on {content['machine']}",
        suite="ddp-training",
        cases=[_ddp_case(row, gpus, content) for row in content["rows"]],
        notes=[content["known_inconsistency"], content["torch_note"], content["one_gpu_row_price"]],
        **shared,
    )
    link = content["allreduce"]
    yield Reference(
        title=f"All-reduce on {content['machine']}",
        suite="allreduce",
        cases=[
            *(
                _bus_bandwidth(value, int(name.split()[0]), "default")
                for name, value in link["bus_bandwidth_gb_s"].items()
            ),
            *(_bus_bandwidth(link[name], gpus, variant) for name, variant in _ACCESS.items()),
        ],
        notes=[f"flat from {link['flat_from_mb']} MB to {link['flat_to_mb']} MB"],
        **shared,
    )


def _ddp_case(row: list[Any], gpus: int, content: Mapping[str, Any]) -> Case:
    model, name, tokens_per_second, speed_up, run_day, today = row
    variant = name.rpartition(", ")[2]
    is_one = variant == "1 GPU"
    contradicts = content["known_inconsistency"].startswith(f"{model} '{variant}'")
    return Case(
        parameters={
            "model": model,
            "ranks": 1 if is_one else gpus,
            "variant": "plain" if is_one else _VARIANTS[variant],
        },
        note=content["known_inconsistency"] if contradicts else None,
        measurements=[
            Measured(
                metric="tokens_per_second", value=tokens_per_second, unit="tokens/s", statistic="median"
            ),
            Measured(metric="speed_up", value=speed_up, unit="ratio"),
        ],
        costs=[("usd_per_billion_tokens", "run_day", run_day), ("usd_per_billion_tokens", "today", today)],
    )


def _bus_bandwidth(value: float, ranks: int, variant: str) -> Case:
    return Case(
        parameters={"ranks": ranks, "variant": variant},
        measurements=[Measured(metric="bus_bandwidth", value=value, unit="GB/s")],
    )


def _finetune(content: Mapping[str, Any], sha256: str) -> Iterator[Reference]:
    source, day, today = content["source"], content["run_date"], content["price_today"]
    yield Reference(
        label="published",
        title=f"Fine-tuning {content['model']} on an {content['gpu']}",
        suite="finetune",
        source=source,
        sha256=sha256,
        run_date=day,
        device=Device(gpu_name="L40S", gpu_count=1, gpu_memory_gb=48, detail=content["gpu"]),
        model=content["model"],
        price=_price(content["price_run_day_usd_per_hour"], day, source),
        price_today=_price(today["usd_per_gpu_hour"], today["read_at"], source, gpus=2),
        cases=[_finetune_case(row) for row in content["rows"]],
        notes=[f"today's price is that of one GPU {today['on']}", "single runs"],
    )


def _finetune_case(row: Mapping[str, Any]) -> Case:
    parameters = {"method": row["method"], "micro_batch": row["micro_batch"]}
    trainable = Measured(
        metric="trainable_parameters", value=round(row["trainable_m"] * 1_000_000), unit="count"
    )
    if row.get("status") == "oom":
        return Case(parameters=parameters, status="out_of_memory", note=row["note"])
    return Case(
        parameters=parameters,
        measurements=[
            Measured(metric="tokens_per_second", value=row["tokens_per_s"], unit="tokens/s"),
            Measured(metric="train_seconds", value=row["train_s"], unit="s"),
            Measured(metric="peak_memory_gib", value=row["peak_gib"], unit="GiB"),
            Measured(metric="loss_before", value=row["loss_before"], unit="nats"),
            Measured(metric="loss_after", value=row["loss_after"], unit="nats"),
            trainable,
        ],
        costs=[
            ("training_cost_usd", "run_day", row["cost_run_day"]),
            ("training_cost_usd", "today", row["cost_today"]),
        ],
    )


def _llm_serving(content: Mapping[str, Any], sha256: str) -> Iterator[Reference]:
    names = {"A6000": "RTX A6000", "L40S": "L40S"}
    for key, gpu in names.items():
        figures = content["known"][key]
        yield Reference(
            label="published",
            title=f"Serving {content['model']} on an {gpu}",
            suite="llm-serving",
            source=content["source"],
            sha256=sha256,
            run_date=content["run_date"],
            device=Device(gpu_name=gpu, gpu_count=1, gpu_memory_gb=48),
            model=content["model"],
            software={"server": content["server"]},
            cases=[_serving_case(figures, concurrency) for concurrency in (1, 64)],
            notes=[content["note"], f"one seed ({content['seed']}) in every cell: the prefix cache is in it"],
        )


def _serving_case(figures: Mapping[str, Any], concurrency: int) -> Case:
    end = f"_c{concurrency}"
    known = {
        f"out_tok_s{end}": ("output_tokens_per_second", "tokens/s", "value", 1),
        f"per_user_tok_s{end}": ("interactivity", "tokens/s", "median", 1),
        f"median_ttft_ms{end}": ("time_to_first_token_ms", "ms", "median", 1),
        f"p99_ttft_s{end}": ("time_to_first_token_ms", "ms", "p99", 1000),
    }
    cost = figures.get(f"usd_per_1m_out{end}")
    return Case(
        parameters={"concurrency": concurrency},
        measurements=[
            Measured(metric=metric, value=figures[key] * scale, unit=unit, statistic=statistic)  # type: ignore[arg-type]
            for key, (metric, unit, statistic, scale) in known.items()
            if key in figures
        ],
        costs=[("usd_per_million_tokens", "run_day", cost)] if cost else [],
    )


def _headlines(content: Mapping[str, Any], sha256: str) -> Iterator[Reference]:
    measured = {
        "TFLOPS": ("tflops", "TFLOPS"),
        "x real time": ("real_time_factor", "x real time"),
        "s to the first CUDA op": ("first_operation_seconds", "s"),
    }
    money = {
        "USD per 1M passages": "usd_per_million_passages",
        "USD per 1,000 images": "usd_per_thousand_images",
    }
    yield _corpus(content["embeddings_corpus"], content["source"], sha256)
    for row in content["headlines"]:
        if row["unit"] not in measured and row["unit"] not in money:
            continue  # the serving headline is a cell of the serving table
        metric = measured.get(row["unit"])
        yield Reference(
            label="published",
            title=f"{row['suite']}: {row['case']}, {row['gpu']}",
            suite=row["suite"],
            source=content["source"],
            sha256=sha256,
            run_date=row["run_date"],
            device=Device(gpu_name=row["gpu"], gpu_count=1),
            cases=[
                Case(
                    parameters={"case": row["case"]},
                    measurements=(
                        [Measured(metric=metric[0], value=row["value"], unit=metric[1])] if metric else []
                    ),
                    costs=[] if metric else [(money[row["unit"]], "run_day", row["value"])],
                )
            ],
            notes=["single run"],
        )


def _corpus(table: Mapping[str, Any], source: str, sha256: str) -> Reference:
    gpu, _, _ = table["gpu"].partition(" 16 GB")
    day = table["run_date"]
    seconds = {key: f"{key}econds" for key in ("setup_s", "load_s", "shutdown_s")}
    return Reference(
        label="published",
        title=f"Embedding {table['documents']} documents with {table['model']} on an {table['gpu']}",
        suite="embeddings-corpus",
        source=source,
        sha256=sha256,
        run_date=day,
        device=Device(gpu_name=gpu, gpu_count=1, gpu_memory_gb=16),
        model=table["model"],
        price=_price(table["usd_per_hour"], day, source),
        cases=[
            Case(
                parameters={"batch_size": 16},
                measurements=[
                    Measured(
                        metric="tokens_per_second", value=table["tokens_per_s_batch16"], unit="tokens/s"
                    ),
                    *(Measured(metric=name, value=table[key], unit="s") for key, name in seconds.items()),
                ],
                costs=[
                    ("fixed_cost_usd", "run_day", table["fixed_usd"]),
                    ("usd_per_million_tokens", "run_day", table["usd_per_1m_tokens_gpu"]),
                ],
            )
        ],
        notes=[
            f"API: {table['api_list_price']} USD per 1M tokens, {table['api_usd_per_1m_tokens']} as billed",
            f"one of 100 vectors with a cosine of {table['outlier']['cosine']}: {table['outlier']['why']}",
        ],
    )
