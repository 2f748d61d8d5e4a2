"""What the VM's suites share: the binary under test and its answers."""
import json
import os
import pathlib
import subprocess
import tempfile

BINARY = os.environ.get("HEARTH_BINARY", "")


def answer(fields):
    """(output bytes, trap or None) of one JSON answer; a program that could not be run counts as an end of its own."""
    return bytes.fromhex(fields.get("output_hex", "")), fields.get("trap") or fields.get("error")


def batch(programs, *options, binary=None):
    """Runs [(file, input)] through `hearth vm run --batch`; one JSON object each, in order."""
    with tempfile.TemporaryDirectory(prefix="hearth_vm_") as folder:
        listing = pathlib.Path(folder) / "list"
        listing.write_text("".join(f"{path}\t{data}\n" for path, data in programs))
        command = [binary or BINARY, "vm", "run", "--batch", str(listing), "--json", *options]
        done = subprocess.run(command, capture_output=True, check=False)
    answers = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    if len(answers) != len(programs):
        raise RuntimeError(f"{len(answers)} answers to {len(programs)} programs; exit status {done.returncode}: "
                           + done.stderr.decode("utf-8", "replace")[-2000:])
    return answers


def hearth(*words, timeout=600):
    """The finished process."""
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, timeout=timeout, check=False)
