#!/usr/bin/env python3
"""Fails when a room includes what its row in the table of rooms does not name, or a source file outgrows its budget."""
import pathlib
import re
import sys

# Bottom up: room -> rooms it may see (besides itself). The same table stands in ARCHITECTURE.md.
ROOMS = {
    "base": "",
    "machine": "base",
    "tensor": "base",
    "gguf": "base tensor",
    "kernels": "base tensor",
    "text": "base gguf",
    "graph": "base tensor",
    "backend": "base machine tensor kernels graph",
    "models": "base tensor gguf graph",
    "kv": "base tensor backend",
    "sampling": "base tensor machine text",
    "engine": "base machine tensor gguf text graph backend models kv sampling",
    "vm": "base machine",
    "server": "base machine tensor gguf text graph backend models kv sampling engine",
    "cli": "base machine tensor gguf text graph backend models kv sampling engine kernels vm server",
}
LINE_BUDGET = 800
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".inc"}:
            continue
        relative = path.relative_to(root / "src")
        room = relative.parts[0]
        if room not in ROOMS:
            faults.append(f"{relative}: room '{room}' is not in the table")
            continue
        allowed = {room, *ROOMS[room].split()}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            target = found.group(1)
            if not (root / "src" / target).is_file():
                faults.append(f"{relative}:{number}: includes {target}, which is not a file below src/")
            elif target.split("/")[0] not in allowed:
                faults.append(f"{relative}:{number}: {room} may not see {target}")
    for folder in ("src", "tests", "tools", "bench", "python"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".h", ".cpp", ".inc", ".py", ".cmake"} and path.is_file():
                lines = path.read_text().count("\n")
                if lines > LINE_BUDGET:
                    faults.append(f"{path.relative_to(root)}: {lines} lines, the budget is {LINE_BUDGET}")
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
