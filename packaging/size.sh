#!/usr/bin/env bash
# Builds the program of a release with its symbols, and writes its size without them by section and
# by package into docs/dependencies.md; or prints the size of BINARY, which has symbols.
# usage: packaging/size.sh [BINARY]
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
command -v python3 >/dev/null && command -v readelf >/dev/null || exit 2
[ $# = 0 ] || exec python3 packaging/size.py "$1" --symbols "$1"
place=target/size
mkdir -p "$place"
cargo rustc --profile dist -j2 --locked -p convoy --bin convoy --target-dir "$place" -- -C strip=none
strip -o "$place/convoy" "$place/dist/convoy"
xz --keep --stdout --threads=1 -9 "$place/convoy" >"$place/convoy.xz"
python3 packaging/size.py "$place/convoy" --symbols "$place/dist/convoy" --archive "$place/convoy.xz" \
    --write docs/dependencies.md
