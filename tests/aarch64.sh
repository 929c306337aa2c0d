#!/usr/bin/env bash
# The locks, the checker and the recorder on aarch64, under qemu. It executes the instructions and
# system calls of aarch64, orders memory as this machine does and offers neither rseq nor
# perf_event_open(2): a missing fence, restartable sequences and samples of CPU time need real
# hardware. `cargo xtask aarch64` calls it. Exit code 2: a tool is missing.
# usage: tests/aarch64.sh [--short | --release]
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
target=aarch64-unknown-linux-gnu
export CC=aarch64-linux-gnu-gcc QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$CC

packaging/emulated.sh true 2>/dev/null && command -v "$CC" >/dev/null &&
    [ -e "$QEMU_LD_PREFIX/lib/ld-linux-aarch64.so.1" ] &&
    [ -d "$(rustc --print target-libdir --target "$target")" ] || exit 2

if [ "${1:-}" = --release ]; then
    packaging/build.sh aarch64
    exec packaging/check.sh aarch64
fi
# emulated PACKAGE [FLAG]...: compiling takes most of the time, and this profile optimises nothing.
emulated() {
    packaging/emulated.sh cargo test --locked --profile xtask --target "$target" -p "$@"
}
# What differs between machines is atomic instructions, system calls, and the recorder's object: the
# locks on threads, and the recorder on the program of the tutorial.
emulated convoy-checker --test native
emulated convoy-record --test tutorial
[ "${1:-}" != --short ] || exit 0
# Each lock, and the checker on known algorithms: two minutes, and as much to compile.
emulated convoy-checker --test famous
emulated convoy-sync --lib --test semaphore --test future
