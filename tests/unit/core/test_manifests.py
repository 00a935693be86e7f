"""Manifests: what is declared is what the code sees, and what is wrong is named with its file."""

from pathlib import Path

import pytest

from rentbench.core.errors import InvalidDocumentError, UnusableInputError, UsageError
from rentbench.core.manifests import SuiteManifest, load_images, load_suites, read_suite
from rentbench.core.parameters import Parameter, parse_value
from rentbench.core.validation import check_file
from support.results import write_root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RENTBENCH_ROOT", str(tmp_path))
    return write_root(tmp_path)


@pytest.fixture
def suite(root: Path) -> SuiteManifest:
    return read_suite(root / "suites" / "example" / "suite.toml")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_suites_are_found_by_their_manifests(root: Path) -> None:
    assert list(load_suites()) == ["example"]
    suite = load_suites()["example"]
    assert suite.folder == root / "suites" / "example"
    assert suite.metrics["steady_tflops"].direction == "higher"
    assert suite.parameters["warm_up_seconds"].kind == "setting"
    assert suite.presets["standard"].repeats == 3
    assert suite.headline is not None
    assert suite.headline.case == {"dtype": "bf16", "size": 8192}
    (root / "suites" / "no_manifest").mkdir()
    assert list(load_suites()) == ["example"]


def test_images_are_found_by_their_manifests(root: Path) -> None:
    image = load_images()["example"]
    assert image.needs_gpu
    assert image.suites == ("example",)
    assert image.base_digest == "sha256:" + "7b" * 32
    path = root / "images" / "example" / "image.toml"
    path.write_text(path.read_text().partition("[gpu]")[0])
    cpu = load_images()["example"]
    assert (cpu.needs_gpu, cpu.driver_min, cpu.cuda_min) == (False, None, None)


def test_cases_are_the_product_of_each_grid_in_order_and_once(root: Path) -> None:
    path = root / "suites" / "example" / "suite.toml"
    edit(
        path,
        'grids = [{dtype = ["fp32", "bf16"], size = [4096, 8192]}]',
        'grids = [{dtype = ["fp32", "bf16"], size = [64, 32]}, {size = [32, 16], dtype = ["bf16"]}]',
    )
    assert read_suite(path).cases("standard") == [
        {"dtype": "fp32", "size": 64},
        {"dtype": "fp32", "size": 32},
        {"dtype": "bf16", "size": 64},
        {"dtype": "bf16", "size": 32},
        {"size": 16, "dtype": "bf16"},
    ]


def test_a_preset_that_is_not_there_names_those_that_are(suite: SuiteManifest) -> None:
    with pytest.raises(UsageError) as caught:
        suite.cases("quick")
    assert caught.value.hint == "presets: smoke, standard, full"


@pytest.mark.parametrize(
    ("values", "kind", "message", "allowed"),
    [
        ({"rows": 5}, "case", 'example has no case parameter "rows"', "case parameters: dtype, size"),
        ({"warm_up_seconds": 1}, "case", "no case parameter", "dtype, size"),
        ({"size": 5}, "setting", "no setting parameter", "warm_up_seconds"),
        ({"size": 8}, "case", "size of example is 8", "integer from 16 to 65536"),
        ({"size": "64"}, "case", 'size of example is "64"', "integer"),
        ({"size": True}, "case", "size of example is true", "integer"),
        ({"size": 64.0}, "case", "size of example is 64.0", "integer"),
        ({"dtype": "fp64"}, "case", 'dtype of example is "fp64"', '"fp32", "bf16"'),
        ({"warm_up_seconds": float("nan")}, "setting", "warm_up_seconds", "number from 0"),
        ({"warm_up_seconds": None}, "setting", "warm_up_seconds of example is null", "number from 0"),
    ],
)
def test_parameters_outside_the_manifest_are_refused(
    values: dict, kind: str, message: str, allowed: str, suite: SuiteManifest
) -> None:
    with pytest.raises(UsageError) as caught:
        suite.check_parameters(values, kind)
    assert message in caught.value.message
    assert caught.value.hint is not None
    assert allowed in caught.value.hint


def test_every_case_of_every_preset_is_allowed(suite: SuiteManifest) -> None:
    for preset in suite.presets.values():
        for case in suite.cases(preset.name):
            suite.check_parameters(case)
        suite.check_parameters(preset.settings, "setting")


BROKEN = {
    "not TOML": ("schema_version = 1", "schema_version =", "no valid TOML"),
    "unknown key": ("[needs]", "[needs]\nspeed = 3", '/needs has the unknown key "speed"'),
    "unknown unit": ('"TFLOPS"', '"GFlop/s"', '/metrics/steady_tflops/unit is the unknown unit "GFlop/s"'),
    "unknown unit of a parameter": ('unit = "s"', 'unit = "sec"', "/parameters/warm_up_seconds/unit"),
    "another name than the folder's": ('name = "example"', 'name = "sample"', 'the folder is "example"'),
    "headline not measured": ('metric = "steady_tflops"', 'metric = "x"', "(allowed: steady_tflops)"),
    "headline of no case": ("size = 8192}", "size = 3}", "/headline/case/size holds 3"),
    "grid of a setting": ("size = [256]}", "warm_up_seconds = [1]}", "is no case parameter"),
    "setting of a case": ("{warm_up_seconds = 0.1}", "{size = 64}", "is no setting parameter"),
    "bounds the wrong way round": ("maximum = 65536", "maximum = 3", "/parameters/size/minimum is above"),
    "bound of a text": ('choices = ["fp32", "bf16"]', "minimum = 3", "minimum does not go with"),
    "choice of another type": ('choices = ["fp32", "bf16"]', 'choices = ["fp32", 3]', "/choices/1 is 3"),
    "a date": ("gpus_min = 1", "gpus_min = 2026-11-30", "/needs/gpus_min"),
    "too many cases": (
        "size = [256]}",
        "size = [" + ", ".join(str(size) for size in range(16, 10_017)) + "]}",
        "/presets/smoke/grids make 10001 cases",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_manifest_names_file_place_and_what_is_allowed(name: str, root: Path) -> None:
    old, new, message = BROKEN[name]
    path = root / "suites" / "example" / "suite.toml"
    edit(path, old, new)
    with pytest.raises((InvalidDocumentError, UnusableInputError)) as caught:
        load_suites()
    assert str(path) in caught.value.message
    report = check_file(path)
    assert message in caught.value.message
    assert message in (report.unusable or " ".join(map(str, report.problems)))


def parameter(kind: str, **more: object) -> Parameter:
    return Parameter(name="p", kind="case", type=kind, description="d", **more)


@pytest.mark.parametrize(
    ("declared", "text", "value"),
    [
        (parameter("integer"), "8192", 8192),
        (parameter("number"), "1.5", 1.5),
        (parameter("number"), "2", 2.0),
        (parameter("boolean"), "true", True),
        (parameter("boolean"), "false", False),
        (parameter("string"), "true", "true"),
        (parameter("string", max_length=3), "abc", "abc"),
    ],
)
def test_texts_become_values(declared: Parameter, text: str, value: object) -> None:
    parsed = parse_value(declared, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("declared", "text", "allowed"),
    [
        (parameter("integer"), "1.5", "integer"),
        (parameter("integer"), "9" * 5000, "integer"),
        (parameter("integer"), "9" * 400, "integer"),
        (parameter("integer", minimum=1), "0", "integer from 1"),
        (parameter("number"), "nan", "number"),
        (parameter("number"), "1e999", "number"),
        (parameter("boolean"), "True", "true, false"),
        (parameter("string", choices=("a",)), "b", '"a"'),
        (parameter("string", max_length=3), "abcd", "string of at most 3 characters"),
    ],
)
def test_texts_that_mean_no_value_are_refused(declared: Parameter, text: str, allowed: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_value(declared, text)
    assert caught.value.hint == f"allowed: {allowed}"


def test_a_root_without_schemas_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RENTBENCH_ROOT", str(tmp_path / "nowhere"))
    with pytest.raises(UnusableInputError, match="no schemas found"):
        load_suites()
