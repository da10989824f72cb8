"""House rules that no linter knows: files stay one concept long, and the README stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LIMITS = {".py": 300, ".cpp": 300, ".hpp": 300, ".cu": 300}
README_LIMIT = 150


ROOT_IMPORT = re.compile(r"^\s*(from pagedkv import (?!_core\b)|import pagedkv$)", re.MULTILINE)


def main() -> int:
    """Print every file that breaks a rule; 1 if there is one."""
    names = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    broken = []
    for path in map(Path, names):
        limit = README_LIMIT if path.name == "README.md" and path.parent == Path() else LIMITS.get(path.suffix)
        if limit is None or not path.exists():
            continue
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > limit:
            broken.append(f"{path}: {lines} lines, {limit} at most; it is two concepts")
        if path.parts[:2] == ("src", "pagedkv") and ROOT_IMPORT.search(path.read_text(encoding="utf-8")):
            broken.append(f"{path}: imports the package's root from inside; import the module that has the name")
    print("\n".join(broken) or f"{len(names)} files: all within the rules")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
