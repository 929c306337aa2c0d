#!/usr/bin/env bash
# Packs crates as for the registry, compiles the packed sources, and tests a lock outside the tree
# with nothing but the packed files.
# usage: packaging/crates.sh CRATE...      each after the crates that it depends on
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
machine=$(uname -m)
. packaging/names.sh
packages=("${@/#/--package=}")
cargo publish --dry-run --locked --allow-dirty "${packages[@]}"
# Whether a dry run leaves the files that a registry would serve depends on cargo's version.
cargo package --no-verify --locked --allow-dirty "${packages[@]}"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp -r examples/own-lock "$place/lock"
mkdir "$place/lock/.cargo"
rm -rf "$place/lock/Cargo.lock" "$place/lock/target"
echo '[patch.crates-io]' >"$place/lock/.cargo/config.toml"
for crate; do
    tar -C "$place" -xzf "target/package/$crate-$version.crate"
    for license in LICENSE-MIT LICENSE-APACHE; do
        cmp "$license" "$place/$crate-$version/$license"
    done
    echo "$crate = { path = '$place/$crate-$version' }" >>"$place/lock/.cargo/config.toml"
done
cat >"$place/lock/Cargo.toml" <<END
[package]
name = "own-lock"
version = "0.1.0"
edition = "2024"

[dependencies]
convoy-sync = "$version"

[dev-dependencies]
convoy-checker = "$version"
convoy-stats = "$version"
END
target=$PWD/target/outside
cd "$place/lock"
CARGO_TARGET_DIR=$target cargo test
