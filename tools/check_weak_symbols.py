#!/usr/bin/env python3
"""Fails when an object built with the flags of an ISA level defines a weak symbol.

The linker keeps one copy of a weak symbol (an inline function, a template): it may keep the one built for AVX-512, and a
program that never asked for it then stops on an older CPU. ISA files keep everything but install_X in anonymous namespaces.
Usage: check_weak_symbols.py NM OBJECT...
"""
import subprocess
import sys

WEAK = set("WwVvu")  # weak functions, weak objects, and GNU's unique objects


def weak_definitions(nm: str, path: str) -> list[str]:
    listing = subprocess.run([nm, "--defined-only", "--demangle", path], check=True, capture_output=True, text=True).stdout
    found = []
    for line in listing.splitlines():
        fields = line.split(maxsplit=2)
        if len(fields) == 3 and fields[1] in WEAK:
            found.append(fields[2])
    return found


def main() -> int:
    nm, objects = sys.argv[1], sys.argv[2:]
    if not objects:
        print("no objects given")
        return 1
    faults = [f"{path}: weak symbol {name}" for path in objects for name in weak_definitions(nm, path)]
    for fault in faults:
        print(fault)
    print(f"{len(objects)} objects, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
