#!/bin/sh
# Installs Convoy from an archive of a release, after it has verified the archive's checksum.
#
#   sh install.sh [--prefix DIR] [--from DIR-OR-URL] [--version VERSION]
#
# Without --from, the archive is taken from the directory of this script, or from the place that the
# release workflow has written below. The prefix is ~/.local; bin/convoy is the program.
set -eu

# The release workflow replaces this line.
from=''
version='0.1.0'
prefix="${HOME:-/usr/local}/.local"

fail() {
    echo "install.sh: $1" >&2
    exit "${2:-3}"
}

while [ $# -gt 0 ]; do
    case "$1" in
    --prefix | --from | --version)
        [ $# -ge 2 ] || fail "$1 needs a value" 2
        case "$1" in
        --prefix) prefix=$2 ;;
        --from) from=$2 ;;
        --version) version=$2 ;;
        esac
        shift 2
        ;;
    -h | --help)
        sed -n '2,8s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) fail "unknown argument $1: see sh install.sh --help" 2 ;;
    esac
done

[ "$(uname -s)" = Linux ] || fail "Convoy needs Linux"
machine=$(uname -m)
case "$machine" in
x86_64 | aarch64) ;;
*) fail "there is no archive for $machine: build from source, docs/install.md" ;;
esac
archive="convoy-$version-$machine-linux"

if [ -z "$from" ]; then
    from=$(cd "$(dirname "$0")" && pwd)
    [ -f "$from/SHA256SUMS" ] || fail "name the place of the release with --from" 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 3' HUP INT TERM
for file in "$archive.tar.xz" SHA256SUMS; do
    case "$from" in
    http://* | https://*)
        if command -v curl >/dev/null; then
            curl -fsSL -o "$work/$file" "$from/$file" || fail "cannot fetch $from/$file"
        else
            wget -q -O "$work/$file" "$from/$file" || fail "cannot fetch $from/$file"
        fi
        ;;
    *) cp "$from/$file" "$work/$file" || fail "cannot read $from/$file" ;;
    esac
done

(
    cd "$work"
    # Exactly one line must name the archive, or an empty list would verify anything.
    grep -F "  $archive.tar.xz" SHA256SUMS >sum || exit 1
    [ "$(wc -l <sum)" -eq 1 ] || exit 1
    sha256sum -c sum >/dev/null 2>&1
) || fail "the checksum of $archive.tar.xz is wrong: nothing was installed"

# Small systems have no xz, and some of these have Python.
if command -v xz >/dev/null; then
    xz -dc "$work/$archive.tar.xz" >"$work/archive.tar"
elif command -v python3 >/dev/null; then
    python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
        "$work/$archive.tar.xz" "$work/archive.tar"
else
    fail "xz or python3 is needed to unpack the archive, or take the Debian package"
fi
tar -C "$work" -xf "$work/archive.tar"
mkdir -p "$prefix"
# `cp -R` follows links of the prefix and keeps other files there.
cp -R "$work/$archive/." "$prefix/"
"$prefix/bin/convoy" --version >/dev/null || fail "the program does not run: is glibc 2.17 or later here?"
echo "installed $("$prefix/bin/convoy" --version) in $prefix/bin"
case ":$PATH:" in
*":$prefix/bin:"*) ;;
*) echo "Add it to the path: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
