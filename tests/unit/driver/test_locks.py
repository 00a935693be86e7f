"""Locks agree with their inputs, and wheel folders with their locks."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from rentbench.core.errors import InvalidDocumentError, RentbenchError
from rentbench.core.manifests import ImageManifest, load_images
from rentbench.driver.images.locks import PYTHON, lock_is_current, make_lock, pip_target, read_lock
from rentbench.driver.images.wheels import fill_wheel_folder, missing_wheels

if TYPE_CHECKING:
    from pathlib import Path

IMAGES = load_images()


@pytest.fixture
def image(tmp_path: Path) -> ImageManifest:
    """An image whose one requirement is a wheel in the folder `index` beside it."""
    folder = tmp_path / "tiny"
    index = tmp_path / "index"
    folder.mkdir()
    index.mkdir()
    make_wheel(index, "rb_tiny", "1.2")
    (folder / "requirements.in").write_text("rb-tiny\n")
    return ImageManifest(
        name="tiny",
        purpose="test",
        suites=("gemm",),
        platform="linux/amd64",
        base_reference="debian:bookworm-slim",
        base_digest="sha256:" + "0" * 64,
        debian_snapshot="20261130T000000Z",
        compute_capabilities=(),
        driver_min=None,
        cuda_min=None,
        folder=folder,
    )


def make_wheel(folder: Path, name: str, version: str) -> Path:
    """Make the smallest wheel that pip takes."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    information = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{information}/METADATA", metadata)
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
    return path


def offline(image: ImageManifest) -> list[str]:
    """Return what makes pip look into the test's own folder only."""
    return ["--isolated", "--no-index", f"--find-links={image.folder.parent / 'index'}"]


needs_image_python = pytest.mark.skipif(
    sys.version_info[:2] != PYTHON, reason="locks are made with the images' own Python"
)


@pytest.mark.parametrize("name", IMAGES)
def test_every_lock_was_made_from_its_input_as_it_is(name: str) -> None:
    assert lock_is_current(IMAGES[name]), f"requirements.in is newer: rentbench image lock {name}"
    locked = {wheel.name: wheel for wheel in read_lock(IMAGES[name].folder / "requirements.lock")}
    for line in (IMAGES[name].folder / "requirements.in").read_text().splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            package, _, version = requirement.partition("==")
            assert locked[package].version.partition("+")[0] == version


def test_the_cpu_image_has_torch_without_cuda() -> None:
    locked = {wheel.name: wheel for wheel in read_lock(IMAGES["cpu"].folder / "requirements.lock")}
    assert locked["torch"].version.endswith("+cpu")
    assert not [name for name in locked if name.startswith("nvidia-") and name != "nvidia-ml-py"]


@needs_image_python
def test_a_lock_names_file_and_hash_and_its_input(image: ImageManifest) -> None:
    text = make_lock(image, pip_options=offline(image))
    lock = image.folder / "requirements.lock"
    lock.write_text(text)
    wheel = image.folder.parent / "index" / "rb_tiny-1.2-py3-none-any.whl"
    (found,) = read_lock(lock)
    assert (found.name, found.version, found.file) == ("rb-tiny", "1.2", wheel.name)
    assert found.sha256 == f"sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
    assert str(image.folder) not in text
    assert make_lock(image, pip_options=offline(image)) == text
    assert lock_is_current(image)
    (image.folder / "requirements.in").write_text("rb-tiny==1.2\n")
    assert not lock_is_current(image)


@needs_image_python
def test_a_requirement_that_is_nowhere_is_said_in_pips_words(image: ImageManifest) -> None:
    (image.folder / "requirements.in").write_text("rb-tiny==9.9\n")
    with pytest.raises(RentbenchError, match="could not resolve") as caught:
        make_lock(image, pip_options=offline(image))
    assert "rb-tiny==9.9" in str(caught.value.hint)


def test_a_lock_for_another_platform_is_not_guessed(image: ImageManifest) -> None:
    other = ImageManifest(**{**vars(image), "platform": "linux/arm64"})
    with pytest.raises(RentbenchError, match="linux/arm64"):
        make_lock(other)


def test_no_lock_is_not_current(image: ImageManifest) -> None:
    assert not lock_is_current(image)


@pytest.mark.parametrize("text", ["", "# words\n", "torch==2\n", "torch>=2 \\\n    --hash=sha256:00\n"])
def test_a_lock_that_is_not_ours_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "requirements.lock"
    path.write_text(text)
    with pytest.raises(InvalidDocumentError):
        read_lock(path)


@needs_image_python
def test_a_folder_is_filled_once_and_a_wrong_file_is_replaced(image: ImageManifest, tmp_path: Path) -> None:
    (image.folder / "requirements.lock").write_text(make_lock(image, pip_options=offline(image)))
    folder = tmp_path / "wheels"
    said: list[str] = []
    assert len(missing_wheels(image, folder)) == 1
    assert fill_wheel_folder(image, folder, pip_options=offline(image), say=said.append) == 1
    assert missing_wheels(image, folder, verify=True) == []
    assert fill_wheel_folder(image, folder, pip_options=["--no-such-option"], say=said.append) == 0
    (folder / "rb_tiny-1.2-py3-none-any.whl").write_bytes(b"cut off")
    assert missing_wheels(image, folder) == []
    assert len(missing_wheels(image, folder, verify=True)) == 1
    assert fill_wheel_folder(image, folder, pip_options=offline(image), say=said.append) == 1
    assert {path.name for path in folder.iterdir()} == {"rb_tiny-1.2-py3-none-any.whl"}


@needs_image_python
def test_a_wheel_of_another_content_is_not_taken(image: ImageManifest, tmp_path: Path) -> None:
    (image.folder / "requirements.lock").write_text(make_lock(image, pip_options=offline(image)))
    with (image.folder.parent / "index" / "rb_tiny-1.2-py3-none-any.whl").open("ab") as file:
        file.write(b"changed")
    with pytest.raises(RentbenchError, match="could not download"):
        fill_wheel_folder(image, tmp_path / "wheels", pip_options=offline(image), say=print)
    assert list((tmp_path / "wheels").iterdir()) == []


def test_wheels_are_chosen_for_the_image_not_for_this_machine(image: ImageManifest) -> None:
    options = pip_target(image)
    assert options[options.index("--python-version") + 1] == "3.11"
    assert "manylinux_2_28_x86_64" in options
    assert "manylinux_2_39_x86_64" not in options  # newer than Debian 12's C library
