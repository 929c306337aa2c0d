#!/usr/bin/env bash
# Builds the program of a release with a map of the linker, and writes its size by section and by
# package into docs/dependencies.md; or prints the size of BINARY, which `cargo build --release` made.
# usage: packaging/size.sh [BINARY]
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
command -v python3 >/dev/null && command -v readelf >/dev/null || exit 2
[ $# = 0 ] || exec python3 packaging/size.py "$1" --rlibs "$(dirname "$1")/deps"
map=$PWD/target/size/dist.map
mkdir -p target/size
cargo rustc --profile dist -j2 --locked -p convoy --bin convoy --target-dir target/size -- -C "link-arg=-Wl,-Map=$map"
xz --keep --stdout --threads=1 -9 target/size/dist/convoy >target/size/convoy.xz
python3 packaging/size.py target/size/dist/convoy --map "$map" --archive target/size/convoy.xz \
    --write docs/dependencies.md
