# The usual tasks; `just` lists them.

_list:
    @just --list

# A build for trying things out
build:
    cargo build

# All tests, or those whose names contain a text: just test claims::
test *NAMES:
    tests/run -- {{NAMES}}

# Everything that must hold of a commit
ci:
    .ci/run

# The measurements, beside their floors
bench *ONLY:
    cargo build --release && bench/run.py {{ONLY}}

# The packages of a release, each of them tried
packages *ONLY:
    tests/packages {{ONLY}}
