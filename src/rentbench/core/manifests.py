"""Suite and image manifests as the other parts see them. Found by glob: nothing lists suites by name."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rentbench.core.documents import read_toml
from rentbench.core.errors import DependencyMissingError, InvalidDocumentError, UsageError
from rentbench.core.manifest_rules import manifest_problems
from rentbench.core.parameters import Parameter, ParameterKind, Scalar, parse_value, read_parameter
from rentbench.core.problems import listing, show
from rentbench.core.resources import resource
from rentbench.core.structure import schema_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = [
    "Headline",
    "ImageManifest",
    "Metric",
    "Needs",
    "Parameter",
    "Preset",
    "Scalar",
    "SuiteManifest",
    "load_images",
    "load_suites",
    "parse_value",
    "read_image",
    "read_suite",
]

Direction = Literal["higher", "lower", "none"]
_Manifest = TypeVar("_Manifest", "SuiteManifest", "ImageManifest")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number that a suite measures."""

    name: str
    title: str
    unit: str
    direction: Direction
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One of the named amounts of work: `smoke`, `standard`, `full`."""

    name: str
    description: str
    repeats: int
    timeout_seconds: float
    grids: tuple[Mapping[str, tuple[Scalar, ...]], ...]
    settings: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The metric, and the parameters of the case, that stand for a whole suite."""

    metric: str
    case: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a suite needs of a host, outside `smoke`."""

    gpus_min: int
    network: bool
    shm_bytes: int
    packages: tuple[str, ...]
    idle_gpu: bool = True


@dataclass(frozen=True, kw_only=True)
class SuiteManifest:
    """What a suite measures, from its `suite.toml`."""

    name: str
    version: str
    title: str
    category: Literal["hardware", "training", "inference", "machines"]
    summary: str
    process_per: Literal["repeat", "case"]
    headline: Headline | None
    needs: Needs
    metrics: Mapping[str, Metric]
    parameters: Mapping[str, Parameter]
    presets: Mapping[str, Preset]
    folder: Path

    @property
    def apart(self) -> frozenset[str]:
        """Names of the parameters whose values are never compared with each other."""
        return frozenset(name for name, parameter in self.parameters.items() if parameter.apart)

    def cases(self, preset: str) -> list[dict[str, Scalar]]:
        """Return the cases of a preset: the product of each grid's lists, grid after grid, each case once.

        Raises:
            UsageError: No such preset.
        """
        if preset not in self.presets:
            msg = f"{self.name} has no preset {show(preset)}"
            raise UsageError(msg, hint=f"presets: {listing(self.presets)}")
        cases: list[dict[str, Scalar]] = []
        seen: set[tuple[tuple[str, str], ...]] = set()
        for grid in self.presets[preset].grids:
            for values in itertools.product(*grid.values()):
                case = dict(zip(grid, values, strict=True))
                identity = tuple(sorted((key, repr(value)) for key, value in case.items()))
                if identity not in seen:
                    seen.add(identity)
                    cases.append(case)
        return cases

    def check_parameters(self, values: Mapping[str, Scalar], kind: ParameterKind = "case") -> None:
        """Refuse parameters that the manifest does not declare, or values outside what it allows.

        Args:
            values: By parameter name.
            kind: Which parameters may occur.

        Raises:
            UsageError: The message names the parameter, the value and what is allowed.
        """
        declared = {name: parameter for name, parameter in self.parameters.items() if parameter.kind == kind}
        for name, value in values.items():
            if name not in declared:
                msg = f"{self.name} has no {kind} parameter {show(name)}"
                raise UsageError(msg, hint=f"{kind} parameters: {listing(declared, limit=40) or 'none'}")
            if not declared[name].fits(value):
                msg = f"{name} of {self.name} is {show(value)}"
                raise UsageError(msg, hint=f"allowed: {declared[name].allowed}")


@dataclass(frozen=True, kw_only=True)
class ImageManifest:
    """What an image is for and stands on, from its `image.toml`."""

    name: str
    purpose: str
    suites: tuple[str, ...]
    platform: Literal["linux/amd64", "linux/arm64"]
    base_reference: str
    base_digest: str
    debian_snapshot: str
    compute_capabilities: tuple[str, ...]
    driver_min: str | None
    cuda_min: str | None
    folder: Path

    @property
    def needs_gpu(self) -> bool:
        """Whether the image is for GPUs; one that is not runs on CPU alone."""
        return bool(self.compute_capabilities)


def load_suites() -> dict[str, SuiteManifest]:
    """Return every suite of this installation, by public name, in the order of the names.

    Raises:
        InvalidDocumentError: A manifest breaks the schema or its rules; the message names file, place and
            what is allowed.
        UnusableInputError: A manifest cannot be read.
    """
    return _load("suites", "suite.toml", read_suite)


def load_images() -> dict[str, ImageManifest]:
    """Return every image recipe of this installation, by name; errors as `load_suites`."""
    return _load("images", "image.toml", read_image)


def read_suite(path: Path) -> SuiteManifest:
    """Return one suite manifest; errors as `load_suites`."""
    content = _checked(path, "suite")
    headline = content.get("headline")
    needs = content["needs"]
    return SuiteManifest(
        name=content["name"],
        version=content["version"],
        title=content["title"],
        category=content["category"],
        summary=content["summary"],
        process_per=content.get("process_per", "repeat"),
        headline=Headline(metric=headline["metric"], case=headline["case"]) if headline else None,
        needs=Needs(
            gpus_min=needs["gpus_min"],
            network=needs["network"],
            shm_bytes=needs["shm_bytes"],
            packages=tuple(needs["packages"]),
            idle_gpu=needs.get("idle_gpu", True),
        ),
        metrics={name: Metric(name=name, **metric) for name, metric in content["metrics"].items()},
        parameters={
            name: read_parameter(name, parameter) for name, parameter in content["parameters"].items()
        },
        presets={name: _preset(name, preset) for name, preset in content["presets"].items()},
        folder=path.parent,
    )


def read_image(path: Path) -> ImageManifest:
    """Return one image manifest; errors as `load_suites`."""
    content = _checked(path, "image")
    gpu = content.get("gpu", {})
    return ImageManifest(
        name=content["name"],
        purpose=content["purpose"],
        suites=tuple(content["suites"]),
        platform=content["platform"],
        base_reference=content["base"]["reference"],
        base_digest=content["base"]["digest"],
        debian_snapshot=content["debian_snapshot"],
        compute_capabilities=tuple(gpu.get("compute_capabilities", ())),
        driver_min=gpu.get("driver_min"),
        cuda_min=gpu.get("cuda_min"),
        folder=path.parent,
    )


def _load(folder: str, file: str, read: Callable[[Path], _Manifest]) -> dict[str, _Manifest]:
    manifests = [read(path) for path in sorted(resource(folder).glob(f"*/{file}"))]
    return {manifest.name: manifest for manifest in sorted(manifests, key=lambda manifest: manifest.name)}


def _checked(path: Path, kind: Literal["suite", "image"]) -> dict[str, Any]:
    content = read_toml(path)
    try:
        problems = schema_problems(content, kind)
    except DependencyMissingError:
        # A bare process without jsonschema: the manifest came with the code that reads it.
        problems = []
    problems = problems or manifest_problems(content, kind, folder=path.parent)
    if problems:
        msg = f"{path}: {problems[0]}"
        raise InvalidDocumentError(msg, hint=f"to see all problems: rentbench validate {path}")
    return content


def _preset(name: str, content: Mapping[str, Any]) -> Preset:
    return Preset(
        name=name,
        description=content["description"],
        repeats=content["repeats"],
        timeout_seconds=content["timeout_seconds"],
        grids=tuple({key: tuple(values) for key, values in grid.items()} for grid in content["grids"]),
        settings=dict(content["settings"]),
    )
