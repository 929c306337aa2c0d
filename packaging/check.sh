#!/usr/bin/env bash
# Installs every file of a finished release for MACHINE and follows docs/tutorial.md with it: where
# there is nothing but glibc, or in the system ROOT, which has dpkg, a shell, and Python with venv.
# Programs of another kind of machine run under qemu.
# usage: packaging/check.sh MACHINE [ROOT]
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
machine=$1 system=${2:-}
. packaging/names.sh
place=$PWD/target/dist-check
programs=$PWD/target/dist-stage/tutorial/$machine
is_here=$([ "$machine" = "$(uname -m)" ] && echo yes || true)

# The program of the tutorial and its fixed version, for the glibc of old systems.
zig_tools
mkdir -p "$programs"
for journals in 1 6; do
    cargo-zigbuild zig cc -- -target "$machine-linux-gnu.$glibc" -O1 -g -pthread \
        -fno-sanitize=all "-DJOURNALS=$journals" -o "$programs/orders-$journals" \
        examples/slow-program/orders.c
done

# inside ROOT COMMAND...: runs a command whose / is ROOT, in separate namespaces. A hang is an error;
# qemu takes about ten times the time of the processor.
inside() {
    local root=$1 limit=300 enter=(unshare --mount --pid --fork --kill-child)
    shift
    [ "$(id -u)" = 0 ] || enter+=(--map-root-user)
    [ -n "$is_here" ] || { enter=(packaging/emulated.sh); limit=1800; }
    # shellcheck disable=SC2016
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
        LC_ALL=C.UTF-8 timeout "$limit" "${enter[@]}" sh -c \
        'mount --rbind /dev "$0/dev" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' \
        "$root" "$@"
}

# expect ROOT PATTERN... -- COMMAND...: the command succeeds and prints each pattern. A table may
# wrap a sentence anywhere.
expect() {
    local root=$1 text pattern patterns=()
    shift
    while [ "$1" != -- ]; do
        patterns+=("$1")
        shift
    done
    shift
    echo "$root$ $*"
    text=$(inside "$root" "$@" 2>&1) || { echo "$text"; return 1; }
    for pattern in "${patterns[@]}"; do
        tr -s '[:space:]' ' ' <<<"$text" | grep -Eq -e "$pattern" ||
            { printf '%s\nthis has no %s\n' "$text" "$pattern"; return 1; }
    done
}

# follow ROOT CONVOY: follows the tutorial. Other programs may leave a record too little to predict
# from, so it is made at most three times; `fix` and `compare` then refuse a verdict.
follow() {
    mkdir -p "$1"/{proc,dev,tmp}
    cp "$programs"/orders-* "$1/tmp"
    once "$@" || once "$@" || once "$@" || fail "the tutorial does not work with $2 in $1"
}

once() {
    local root=$1 convoy=$2 record=/tmp/before.json orders=/tmp/orders-1
    expect "$root" convoy -- "$convoy" --version &&
        expect "$root" 'waiting for `journals`' 'orders\.c:36' '1200 orders' -- \
            "$convoy" record -o "$record" -- "$orders" &&
        expect "$root" 'journals in note \(orders\.c:36\)' -- "$convoy" explain "$record" &&
        expect "$root" -- "$convoy" report "$record" -o /tmp/before.html &&
        expect "$root" 'limits the program' -- \
            "$convoy" predict "$record" --cpus 2,8,32 --policy sleep &&
        expect "$root" 'Splitting `journals` into 6 locks|Other programs had' -- \
            "$convoy" fix "$record" --split 6 &&
        expect "$root" 'Faster: /tmp/orders-6|Unsure: ' -- \
            "$convoy" compare --no-shell --runs 8 "$orders" /tmp/orders-6
}

# bare ROOT PROGRAM: puts the libraries of glibc into ROOT, which has not even a shell.
bare() {
    local root=$1 program library
    if [ -z "$is_here" ]; then
        install -D -t "$root/lib" /usr/aarch64-linux-gnu/lib/{ld-linux-aarch64.so.1,libc.so.6} \
            /usr/aarch64-linux-gnu/lib/lib{dl.so.2,m.so.6,pthread.so.0,rt.so.1}
        return
    fi
    for program in "$2" "$programs/orders-1"; do
        for library in $(ldd "$program" | grep -o '/[^ ]*'); do
            install -D "$library" "$root$library"
        done
    done
}

if [ -n "$system" ]; then
    mkdir -p "$system/tmp/dist"
    cp "$dist"/* "$system/tmp/dist"
    cp python/tests/installed.py "$system/tmp"
    expect "$system" 'Setting up convoy-perf' -- dpkg -i "/tmp/dist/$package"
    follow "$system" /usr/bin/convoy
    expect "$system" 'Removing convoy-perf' -- dpkg -r convoy-perf
    expect "$system" installed -- sh /tmp/dist/install.sh --prefix /opt/convoy
    follow "$system" /opt/convoy/bin/convoy
    expect "$system" -- python3 -m venv --clear /tmp/venv
    expect "$system" 'Successfully installed convoy-perf' -- \
        /tmp/venv/bin/pip install --no-index --no-deps "/tmp/dist/$wheel"
    follow "$system" /tmp/venv/bin/convoy
    expect "$system" ok -- /tmp/venv/bin/python /tmp/installed.py /tmp/orders-1
    echo "checked: archive, Debian package and wheel in $system"
    exit
fi

(cd "$dist" && sha256sum --check --quiet SHA256SUMS)
rm -rf "$place"
prefix=$place/by-script/usr/local
mkdir -p "$prefix" "$place/damaged"
if [ -n "$is_here" ]; then
    sh "$dist/install.sh" --prefix "$prefix"
    # The installer refuses an archive with one changed byte, and installs nothing of it.
    cp "$dist"/{install.sh,SHA256SUMS,"$archive.tar.xz"} "$place/damaged"
    middle=$(($(stat -c %s "$dist/$archive.tar.xz") / 2))
    byte=$(od -An -tu1 -j "$middle" -N 1 "$dist/$archive.tar.xz")
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((byte ^ 1)))" |
        dd of="$place/damaged/$archive.tar.xz" bs=1 seek="$middle" conv=notrunc status=none
    mkdir "$place/refused"
    ! sh "$place/damaged/install.sh" --prefix "$place/refused" ||
        fail "the installer accepted a damaged archive"
    [ -z "$(ls -A "$place/refused")" ] || fail "files of a damaged archive were installed"
else
    tar -C "$prefix" --strip-components 1 -xJf "$dist/$archive.tar.xz"
fi
check_symbols "$prefix/bin/convoy"
[ ! -e "$prefix/lib/convoy" ] || check_symbols "$prefix/lib/convoy/libconvoy_record.so"
bare "$place/by-script" "$prefix/bin/convoy"
follow "$place/by-script" /usr/local/bin/convoy

dpkg-deb -x "$dist/$package" "$place/by-package"
bare "$place/by-package" "$prefix/bin/convoy"
follow "$place/by-package" /usr/bin/convoy

python3 -m venv "$place/python"
pip=("$place/python/bin/pip" install --quiet --no-index --no-deps)
if [ -n "$is_here" ]; then
    "${pip[@]}" "$dist/$wheel"
    "$place/python/bin/python" python/tests/installed.py "$programs/orders-1"
else
    # Python itself would have to be a program of that machine: a system has one.
    "${pip[@]}" --only-binary :all: --platform "$platform" --target "$place/by-wheel/opt" \
        "$dist/$wheel"
    bare "$place/by-wheel" "$prefix/bin/convoy"
    follow "$place/by-wheel" /opt/bin/convoy
fi
echo "checked: archive, Debian package and wheel for $machine"
