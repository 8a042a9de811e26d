#!/usr/bin/env python3
"""The stamp: tests/gpu/stamp.json says what was last run on a GPU, and of which sources.

    tests/gpu/stamp.py check       fails if a kernel changed and the stamp does not say so: a part of make test
    tests/gpu/stamp.py not-run     says so: lists the files that changed since, for somebody with a GPU to run
    tests/gpu/stamp.py digests     prints the sources with their digests, as a build keeps them

tests/gpu/run.py (make test-gpu) writes a new one. It counts the contents of files, not commits, so that rebasing changes nothing.
"""
import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
STAMP = ROOT / "tests/gpu/stamp.json"
FOLDERS, FILES = ("src/cuda", "src/kernels"), ("src/core/philox.h",)  # what decides what a GPU computes


def sources(root=ROOT):
    """The digest of every file, by its path."""
    found = {folder: [path for path in (root / folder).rglob("*") if path.is_file()] for folder in FOLDERS}
    empty = [folder for folder, paths in found.items() if not paths]
    if empty:
        sys.exit(f"stamp.py: expected kernels in {', '.join(FOLDERS)}, found nothing in {', '.join(empty)}")
    paths = [root / path for path in FILES] + [path for paths in found.values() for path in paths]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in sorted(paths)}


def changed(now, then):
    """The paths that are not what they were, or are gone."""
    return sorted(path for path in now.keys() | then.keys() if now.get(path) != then.get(path))


def read(path=STAMP):
    return json.loads(path.read_text()) if path.exists() else {"sources": {}, "not_run": {}}


def write(stamp, path=STAMP):
    path.write_text(json.dumps(stamp, indent=1) + "\n")


def sentence(stamp):
    """Who ran what, and when."""
    if "device" not in stamp:
        return "nothing was run on a GPU yet"
    groups = ", ".join(f"{name} {found['passed']}" for name, found in stamp["groups"].items())
    return f"run on {stamp['device']} (driver {stamp['driver']}, {stamp['date']}), passed: {groups}"


def check():
    """What is wrong, or nothing; prints what was not run."""
    stamp, now = read(), sources()
    print(sentence(stamp))
    failed = {name: found["failed"] for name, found in stamp.get("groups", {}).items() if found["failed"]}
    if failed:
        return f"the run that is stamped had failures: {failed}; mend them and run make test-gpu again"
    missing = changed(now, stamp["sources"])
    unsaid = [path for path in missing if stamp["not_run"].get(path, "") != now.get(path, "gone")]
    if unsaid:
        return ("changed since the last run on a GPU, and tests/gpu/stamp.json does not say so:\n  " + "\n  ".join(unsaid) +
                "\nWith a GPU: make test-gpu, and commit tests/gpu/stamp.json. Without: tests/gpu/stamp.py not-run, and commit it.")
    if missing:
        print(f"not run since they changed ({len(missing)}): {', '.join(missing)}")
    return ""


def not_run():
    stamp, now = read(), sources()
    stamp["not_run"] = {path: now.get(path, "gone") for path in changed(now, stamp["sources"])}
    write(stamp)
    print(f"{len(stamp['not_run'])} files are listed as not run on a GPU in {STAMP.relative_to(ROOT)}")


def main():
    todo = sys.argv[1:]
    if todo == ["check"]:
        sys.exit(check() or 0)
    elif todo == ["not-run"]:
        not_run()
    elif todo == ["digests"]:
        print(json.dumps(sources(), indent=1))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
