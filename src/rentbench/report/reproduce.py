"""The command that repeats a result: the same image, options, preset, settings, cases, repeats and seed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rentbench.core.manifests import Scalar, SuiteManifest
    from rentbench.report.model import Result

__all__ = ["Command", "command_of"]

_OUTSIDE = (
    "It ran outside an image, so nothing pins its software. For the same in an image, build one that holds "
    "the suite: rentbench image list names them, rentbench image build NAME builds one."
)


@dataclass(frozen=True, kw_only=True)
class Command:
    """How to run the same thing: a command to copy, what to know about it, or a reason why there is none."""

    result: Result
    text: str
    note: str


def command_of(result: Result, manifest: SuiteManifest | None) -> Command:
    """Return what repeats a result: `docker run` with the image by digest, or the bare process that it was.

    Args:
        result: What is to be repeated.
        manifest: The suite's, to tell what differs from its preset; None where the suite is not known.
    """
    options = " ".join([result.suite, *_options(result, manifest)])
    if result.runner == "process":
        text = f"python -m rentbench.harness {options} \\\n  --results results"
        return Command(result=result, text=text, note=_OUTSIDE)
    if result.image_reference is None:
        note = "The image that was used is not known. " + (
            "Its run.json was left out."
            if result.sources.run_note
            else "No run.json stands beside the result."
        )
        return Command(result=result, text="", note=note)
    image, note = result.image_reference, ""
    if result.image_digest:
        image = f"{image.partition('@')[0]}@{result.image_digest}"
    else:
        recipe = f" with recipe id {result.recipe_id}" if result.recipe_id else ""
        note = f"The image was never pushed, so it has no digest: build it{recipe} first."
    gpus = [] if result.device is not None and result.device.count == 0 else ["--gpus all"]
    flags = " ".join([*gpus, *_container_flags(result.container)])
    text = (
        f'mkdir -p results && docker run --rm --user "$(id -u):$(id -g)" -v "$PWD/results:/results" \\\n'
        f"  {flags} \\\n  {shlex.quote(image)} \\\n  {options}"
    )
    return Command(result=result, text=text, note=note)


def _container_flags(container: Mapping[str, Any] | None) -> list[str]:
    """Return the options that were in force; without a network where nothing was recorded."""
    if container is None:
        return ["--network none"]
    flags = [f"--network {shlex.quote(container['network'] or 'none')}"]
    if container["read_only_root"]:
        flags.append("--read-only --tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777")
    flags += [f"--cap-drop {shlex.quote(name)}" for name in container["capabilities_dropped"]]
    if container["no_new_privileges"]:
        flags.append("--security-opt no-new-privileges")
    if container["init"]:
        flags.append("--init")
    if container["pids_limit"]:
        flags.append(f"--pids-limit {container['pids_limit']}")
    if container["memory_bytes"]:
        flags.append(f"--memory {container['memory_bytes']}")
    if container["shm_bytes"]:
        flags.append(f"--shm-size {container['shm_bytes']}")
    return flags


def _options(result: Result, manifest: SuiteManifest | None) -> list[str]:
    """Return preset, cases, repeats, seed and settings as the harness takes them."""
    options = [f"--preset {result.preset}"]
    preset = manifest.presets.get(result.preset) if manifest else None
    planned = manifest.cases(result.preset) if manifest and preset and _same_version(result, manifest) else []
    options += [
        f"--case {shlex.quote(text)}" for text in _filters([c.parameters for c in result.cases], planned)
    ]
    if result.repeats is not None and result.seed is not None:
        options += [f"--repeats {result.repeats}", f"--seed {result.seed}"]
    return options + [
        f"--set {shlex.quote(f'{name}={_plain(value)}')}"
        for name, value in result.settings.items()
        if preset is None or preset.settings.get(name) != value
    ]


def _same_version(result: Result, manifest: SuiteManifest) -> bool:
    return result.suite_version == manifest.version


def _filters(ran: Sequence[Mapping[str, Scalar]], planned: Sequence[Mapping[str, Scalar]]) -> list[str]:
    """Return the filters that leave the cases that ran: none for all, one for what they share, else each."""
    if not ran or (len(ran) == len(planned) and all(case in planned for case in ran)):
        return []
    shared = dict(set.intersection(*({*case.items()} for case in ran)))
    chosen = [case for case in planned if shared.items() <= case.items()]
    if shared and len(chosen) == len(ran) and all(case in ran for case in chosen):
        return [_pairs({name: value for name, value in ran[0].items() if name in shared})]
    return [_pairs(case) for case in ran]


def _pairs(case: Mapping[str, Scalar]) -> str:
    return ",".join(f"{name}={_plain(value)}" for name, value in case.items() if value is not None)


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
