#!/usr/bin/env bash
# Makes docs/report.png again: the report of this example, in headless Chromium.
# usage: examples/slow-program/picture.sh CONVOY
set -euo pipefail
here=$(dirname "$(realpath "$0")")
convoy=$(realpath "$1")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export CONVOY_STORE=none
# The name of the source as a user has it, without the directory of this tree.
cp "$here/orders.c" "$place"
cd "$place"
cc -O1 -g -pthread orders.c -o orders
"$convoy" record --quiet -o before.json -- ./orders
"$convoy" report before.json -o report.html
# Without its sandbox it also runs as root in a container.
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,800 \
    "--screenshot=$here/../../docs/report.png" "file://$place/report.html"
