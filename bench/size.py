#!/usr/bin/env python3
"""Counts the files and lines of src and crates without tests, and the lines of their functions.

Code under `#[cfg(test)]` is not counted, nor are the files that such a module names.
The length of a function goes from its `fn` to its closing brace.

With --ceiling it fails if there are more lines or files than bench/ceiling allows.
"""

import re
import statistics
import sys
from pathlib import Path

ITEM_END = re.compile(r"^[^\s]*[;}]")


def without_tests(lines):
    """The lines outside of `#[cfg(test)]` items, and the names of the test modules."""
    kept, modules, at = [], [], 0
    while at < len(lines):
        if lines[at].strip() != "#[cfg(test)]":
            kept.append(lines[at])
            at += 1
            continue
        indent = len(lines[at]) - len(lines[at].lstrip())
        at += 1
        # An item ends on its first line, or with a brace of its own; a line of a text may look like one.
        ends = ("",)
        while True:
            line = lines[at]
            if found := re.match(r"\s*(?:pub(?:\([a-z]+\))? )?mod (\w+);", line):
                modules.append(found[1])
            at += 1
            own = len(line) - len(line.lstrip()) == indent
            if own and not line.lstrip().startswith("#["):
                if line.rstrip().endswith((";", "}")) and line.lstrip().startswith(ends):
                    break
                ends = ("}", ")")
    return kept, modules


def files(root):
    """Every file of the program: its path and its lines without tests."""
    found, left_out = {}, set()
    for path in sorted(root.rglob("*.rs")):
        lines, modules = without_tests(path.read_text().splitlines())
        found[path] = lines
        own = path.parent if path.name in ("mod.rs", "main.rs", "lib.rs") else path.with_suffix("")
        for module in modules:
            left_out |= {own / f"{module}.rs", own / module}
    return {
        path: lines
        for path, lines in found.items()
        if path not in left_out and not left_out & set(path.parents)
    }


def functions(lines):
    """The number of lines of each function."""
    start = indent = None
    for number, line in enumerate(lines):
        if start is None and re.match(r"\s*(pub(\([a-z]+\))? )?(const |unsafe )?fn \w", line):
            start, indent = number, len(line) - len(line.lstrip())
        if start is not None:
            is_own = len(line) - len(line.lstrip()) == indent
            if is_own and line.rstrip().endswith("}"):
                yield number - start + 1
                start = None
            elif line.rstrip().endswith(";") and is_own:
                start = None


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--ceiling"]
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent
    counted = {}
    for sources in (root / "src", *sorted(root.glob("crates/*/src"))):
        counted |= files(sources)
    sizes = [len(lines) for lines in counted.values()]
    lengths = sorted(size for lines in counted.values() for size in functions(lines))
    types = sum(
        bool(re.match(r"\s*(pub(\([a-z]+\))? )?(struct|enum|trait) \w", line))
        for lines in counted.values()
        for line in lines
    )
    print(f"files {len(sizes)}, lines {sum(sizes)}, median file {statistics.median(sizes):g}, types {types}")
    print(
        f"functions {len(lengths)}, median {statistics.median(lengths):g}, "
        f"p90 {lengths[len(lengths) * 9 // 10]}, max {lengths[-1]}"
    )

    if "--ceiling" in sys.argv:
        check_ceiling({"lines": sum(sizes), "files": len(sizes)})


def check_ceiling(reached):
    """Each line of bench/ceiling is a figure and the most that it may be."""
    for line in (Path(__file__).parent / "ceiling").read_text().splitlines():
        figure, most = line.split()
        if reached[figure] > int(most):
            sys.exit(f"{reached[figure]} {figure}: bench/ceiling allows {most}")


if __name__ == "__main__":
    main()
