from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from rentbench.harness.workers.processes import descendants
from rentbench.harness.workers.software import installed_software

if TYPE_CHECKING:
    from pathlib import Path


def python(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own: what is tested here changes or kills the process that does it."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_descendants_are_found_through_generations() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], stdin=sys.stdin)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        while len(found := descendants(process.pid)) < 1:
            pass
        assert found[0] in descendants(os.getpid())
        assert process.pid in descendants(os.getpid())
        process.communicate(b"\n")


def test_orphans_are_adopted_and_killed_and_what_is_kept_stays() -> None:
    ended = python("""
        import os, subprocess, sys, time
        from rentbench.harness.workers.processes import adopt_orphans, descendants, kill_descendants
        adopt_orphans()
        sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
        kept = subprocess.Popen(sleep)
        # A child that leaves a session of its own behind, as a daemon does.
        daemon = "import os, time\\nos.setsid()\\nif os.fork(): os._exit(0)\\ntime.sleep(60)"
        subprocess.run([sys.executable, "-c", daemon])
        orphans = [p for p in descendants(os.getpid()) if p != kept.pid]
        assert len(orphans) == 1, orphans
        assert kill_descendants(keep=[kept.pid]) == 1
        assert descendants(os.getpid()) == [kept.pid]
        kept.kill(); kept.wait()
        print("done")
    """)
    assert ended.stdout == "done\n", ended.stderr


def test_ended_children_are_collected_with_their_codes() -> None:
    ended = python("""
        import os, signal, subprocess, sys
        from rentbench.harness.workers.processes import reap_children
        first = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
        second = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
        codes = {}
        while len(codes) < 2:
            codes |= reap_children()
        assert codes == {first.pid: 7, second.pid: -9}, codes
        assert reap_children() == {}
        print("done")
    """)
    assert ended.stdout == "done\n", ended.stderr


def test_a_process_whose_parent_is_gone_already_ends_at_once() -> None:
    ended = python("""
        from rentbench.harness.workers.processes import die_with_parent
        die_with_parent(1 << 22)  # no process id that is our parent's
        print("still here")
    """)
    assert (ended.returncode, ended.stdout) == (-9, "")


def test_versions_of_what_is_installed_and_names_of_what_is_not() -> None:
    versions, missing = installed_software(["jsonschema", "Typing_Extensions", "no-such-package"])
    assert versions["python"].startswith("CPython 3.")
    assert versions["jsonschema"][0].isdigit()
    assert "typing-extensions" in versions
    assert missing == ["no-such-package"]
    assert all(isinstance(version, str) for version in versions.values())


def test_torch_tells_its_build() -> None:
    pytest.importorskip("torch")
    ended = python("""
        import torch
        from rentbench.harness.workers.software import installed_software
        versions, _ = installed_software([])
        assert versions["torch_build"] == torch.__version__
        print("done")
    """)
    assert ended.stdout == "done\n", ended.stderr


def test_of_two_versions_the_one_that_is_imported_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, version in (("carried", "2.0"), ("installed", "1.0")):
        metadata = tmp_path / folder / f"some_package-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: Some_Package\nVersion: {version}\n")
        monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / folder)])
    versions, missing = installed_software(["some-package"])
    assert versions["some-package"] == "2.0"
    assert missing == []
