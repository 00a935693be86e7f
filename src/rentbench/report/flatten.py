"""From the two documents of a result to what the site keeps of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rentbench.core.gpus import canonical, gpu_folder
from rentbench.core.ids import slug
from rentbench.report.model import Case, Concern, Device, Failure, Figure, Result, Sources

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["device", "flatten"]

_MESSAGE_LENGTH = 400


def flatten(measurement: dict[str, Any] | None, run: dict[str, Any] | None, sources: Sources) -> Result:
    """Return the result that two documents describe; at least one of them is there, both are valid.

    Args:
        measurement: What the harness measured; None where a run ended before it could.
        run: What the driver knows; None for a plain `docker run`.
        sources: Where they lie.
    """
    if measurement is None:
        return _without_measurement(run or {}, sources)
    image = run["image"] if run else {}
    run_failure = _failure(run["error"]) if run else None
    return Result(
        id=measurement["id"],
        suite=measurement["suite"]["name"],
        suite_version=measurement["suite"]["version"],
        preset=measurement["preset"],
        status=measurement["status"],
        failure=_failure(measurement["error"]) or run_failure,
        started=measurement["started"],
        finished=measurement["finished"],
        runner=measurement["runner"],
        device=device(measurement["host"]),
        seed=measurement["parameters"]["seed"],
        repeats=measurement["parameters"]["repeats"],
        settings=measurement["parameters"]["settings"],
        weights=(measurement["weights"] or {}).get("kind"),
        software=measurement["software"],
        driver_version=measurement["host"]["driver_version"],
        cases=tuple(_case(index, case) for index, case in enumerate(measurement["cases"])),
        concerns=tuple(
            Concern(name=check["name"], severity=check["severity"], detail=check["detail"])
            for check in measurement["validity"]
            if check["outcome"] == "failed"
        ),
        recipe_id=measurement["recipe_id"] or image.get("recipe_id"),
        sources=sources,
        image_reference=image.get("reference"),
        image_digest=image.get("digest"),
        container=run["container"] if run else None,
        provider=run["provider"] if run else None,
        price_recorded=bool(run and run["price"]),
    )


def device(host: Mapping[str, Any]) -> Device:
    """Return the device that a document's `host` describes: its GPUs, else its CPU."""
    gpus = host["gpus"]
    if not gpus:
        model = host["cpu"]["model"]
        title = model or "CPU of unknown model"
        return Device(
            key=f"cpu-{slug(title)}", title=title, models=frozenset(), count=0, slice="", vgpu=False
        )
    models = []
    for gpu in gpus:
        known = canonical(gpu["name"], gpu["memory_total_bytes"])
        profile = gpu["mig_profile"] or ""
        models.append(
            (known.key if known else gpu_folder([gpu]), known.title if known else gpu["name"], profile)
        )
    titles = Counter(f"{title}{f' (MIG {profile})' if profile else ''}" for _, title, profile in models)
    keys = Counter(f"{key}{f'-mig-{profile}' if profile else ''}" for key, _, profile in models)
    return Device(
        key="+".join(key if count == 1 else f"{key}-x{count}" for key, count in sorted(keys.items())),
        title=" + ".join(title if count == 1 else f"{count} × {title}" for title, count in titles.items()),
        models=frozenset(key for key, _, _ in models),
        count=len(gpus),
        slice=",".join(sorted({profile for _, _, profile in models if profile})),
        vgpu=any(gpu["vgpu"] for gpu in gpus),
    )


def _without_measurement(run: Mapping[str, Any], sources: Sources) -> Result:
    times = [step["at"] for step in run["timeline"]]
    return Result(
        id=run["id"],
        suite=run["suite"],
        suite_version=None,
        preset=run["preset"],
        status=run["status"],
        failure=_failure(run["error"]),
        started=times[0] if times else None,
        finished=times[-1] if times else None,
        runner=None,
        device=None,
        seed=None,
        repeats=None,
        settings={},
        weights=None,
        software={},
        driver_version=None,
        cases=(),
        concerns=(),
        recipe_id=run["image"]["recipe_id"],
        sources=sources,
        image_reference=run["image"]["reference"],
        image_digest=run["image"]["digest"],
        container=run["container"],
        provider=run["provider"],
        price_recorded=bool(run["price"]),
    )


def _case(index: int, case: Mapping[str, Any]) -> Case:
    return Case(
        index=index,
        parameters=case["parameters"],
        status=case["status"],
        failure=_failure(case["error"]),
        reason=case["reason"],
        figures={item["metric"]: _figure(item) for item in case["measurements"]},
        peak_memory_bytes=case["peak_memory_bytes"],
    )


def _figure(item: Mapping[str, Any]) -> Figure:
    return Figure(
        metric=item["metric"],
        unit=item["unit"],
        direction=item["direction"],
        median=item["median"],
        mean=item["mean"],
        n=item["n"],
        stdev=item["stdev"],
        ci95=tuple(item["ci95"]) if item["ci95"] else None,
        values=tuple(item["values"]),
    )


def _failure(error: Mapping[str, Any] | None) -> Failure | None:
    if error is None:
        return None
    return Failure(kind=error["kind"], message=error["message"][:_MESSAGE_LENGTH], hint=error["hint"])
