"""With fewer packages: images lack jsonschema-rs, and a bare process may lack jsonschema too."""

import subprocess
import sys
from pathlib import Path

from support.results import EXAMPLES, write_root

VALID = EXAMPLES / "measurement" / "valid" / "smoke-on-cpu.json"
INVALID = EXAMPLES / "measurement" / "invalid" / "id-with-newline.json"


def without(*packages: str, code: str, **environment: str) -> str:
    """Run code in a process that cannot import some packages, and return what it prints."""
    hidden = "".join(f"sys.modules[{package!r}] = None; " for package in packages)
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; {hidden}{code}"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


CHECK = f"""
from pathlib import Path
from rentbench.core.errors import DependencyMissingError
from rentbench.core.validation import check_file
for path in ({str(VALID)!r}, {str(INVALID)!r}):
    try:
        print([problem.pointer for problem in check_file(Path(path)).problems])
    except DependencyMissingError as error:
        print(error.message)
"""


def test_without_the_fast_validator_the_verdicts_are_the_same() -> None:
    assert without("jsonschema_rs", code=CHECK).splitlines() == ["[]", "['/id']"]


def test_without_any_validator_that_is_said() -> None:
    lines = without("jsonschema", "jsonschema_rs", code=CHECK).splitlines()
    assert len(lines) == 2
    assert all("jsonschema is not installed" in line for line in lines)


def test_without_any_validator_suites_are_still_read(tmp_path: Path) -> None:
    code = "from rentbench.core.manifests import load_suites; print(*load_suites())"
    root = write_root(tmp_path)
    output = without("jsonschema", "jsonschema_rs", code=code, RENTBENCH_ROOT=str(root))
    assert output == "example\n"
