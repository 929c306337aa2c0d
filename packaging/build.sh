#!/usr/bin/env bash
# Makes the files of a release for MACHINE, x86_64 or aarch64, in target/dist: an archive, a Debian
# package, a wheel, a bill of materials, and checksums. BINARY is a built program.
# usage: packaging/build.sh MACHINE [BINARY]
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
machine=$1 binary=${2:-}
. packaging/names.sh
triple=$machine-unknown-linux-gnu
stage=target/dist-stage/$archive
rm -rf "$stage" target/dist-stage/debian
mkdir -p "$stage/share" "$dist"

if [ -z "$binary" ]; then
    zig_tools
    cargo zigbuild --profile dist --locked -p convoy --bin convoy --target "$triple.$glibc" \
        --target-dir target/zig
    binary=target/zig/$triple/dist/convoy
    object=$(ls -t "target/zig/$triple/dist/build/"*/out/libconvoy_record.so | head -n 1)
    [ -s "$object" ] || fail "crates/record has built no object for $machine"
    check_symbols "$object"
    install -D -m 755 "$object" "$stage/lib/convoy/libconvoy_record.so"
    at_most 20 "$binary"
fi
check_symbols "$binary"
install -D -m 755 "$binary" "$stage/bin/convoy"

# Manual pages and completions are the same on every kind of machine, and a binary of another kind
# cannot write them here.
pages=target/dist-pages
if "$binary" --version >/dev/null 2>&1; then
    rm -rf "$pages"
    mkdir -p "$pages"/{bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
    "$binary" man "$pages/man/man1"
    "$binary" completions bash >"$pages/bash-completion/completions/convoy"
    "$binary" completions fish >"$pages/fish/vendor_completions.d/convoy.fish"
    "$binary" completions zsh >"$pages/zsh/site-functions/_convoy"
fi
[ -d "$pages" ] || fail "build the release for this machine first, for the manual pages"
cp -r "$pages/." "$stage/share"
install -D -m 644 -t "$stage/share/doc/convoy" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE \
    examples/slow-program/orders.c
install -D -m 644 -t "$stage/share/doc/convoy/first-hour" examples/first-hour/*

tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u+w,go-w,a+rX \
    --mtime="@$SOURCE_DATE_EPOCH" -C target/dist-stage -c "$archive" |
    xz --threads=1 -9 >"$dist/$archive.tar.xz"
[ -n "${2:-}" ] || at_most 7 "$dist/$archive.tar.xz"

root=target/dist-stage/debian
mkdir -p "$root/DEBIAN"
cp -a "$stage" "$root/usr"
mv "$root/usr/share/doc/convoy" "$root/usr/share/doc/convoy-perf"
echo "Convoy is licensed under the MIT licence (LICENSE-MIT in this directory) or the Apache" \
    "License 2.0 (LICENSE-APACHE), at your option." >"$root/usr/share/doc/convoy-perf/copyright"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$debian/" \
    -e "s/@SIZE@/$(du -sk "$root/usr" | cut -f 1)/" packaging/control >"$root/DEBIAN/control"
dpkg-deb --root-owner-group -Zxz --build "$root" "$dist/$package"

python3 python/backend/convoy_build.py --platform "$platform" --binary "$binary" "$dist"

# It writes a bill next to each manifest of the workspace; one is that of the program.
bill=target/tools/bin/cargo-cyclonedx
[ -x "$bill" ] ||
    cargo install --locked --debug --root target/tools cargo-cyclonedx@0.5.9
"$bill" cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target "$triple" \
    --override-filename bill
sed "s|$PWD/||g" crates/cli/bill.json >"$dist/$archive.cdx.json"
rm -f crates/*/bill.json

cp packaging/install.sh packaging/Containerfile "$dist"
rm -f "$dist/SHA256SUMS"
(cd "$dist" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
echo "$dist"
