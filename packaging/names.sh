# Names of a release for $machine, and what building and checking it share. Sourced at the root.

case $machine in
    x86_64) debian=amd64 ;;
    aarch64) debian=arm64 ;;
    *) echo "there are no releases for $machine" >&2; exit 2 ;;
esac
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The time of every packed file: the same commit gives the same bytes. Unpacked sources have none.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
# The oldest glibc that Rust's standard library supports, and the base of the wheel's tag.
glibc=2.17
platform=manylinux_2_17_$machine
# The archive's name without its extension is also its only directory.
archive=convoy-$version-$machine-linux
package=convoy-perf_${version}_$debian.deb
wheel=convoy_perf-$version-py3-none-$platform.whl
dist=$PWD/target/dist

fail() {
    echo "release: $1" >&2
    exit 1
}

# Installs zig and its front end from the Python index, in the versions that were tested.
zig_tools() {
    PATH=$PWD/target/zig-tools/bin:$PATH
    command -v cargo-zigbuild >/dev/null && return
    python3 -m venv target/zig-tools
    target/zig-tools/bin/pip install -q cargo-zigbuild==0.24.1 ziglang==0.17.1
}

# at_most MEGABYTES FILE: fails if the file is larger. Programs of aarch64 were not measured.
at_most() {
    [ "$machine" != x86_64 ] || [ "$(stat -c %s "$2")" -le "$1"000000 ] ||
        fail "$2 has more than $1 MB; docs/dependencies.md says what each megabyte buys"
}

# check_symbols FILE...: fails if a file needs symbols of a newer glibc or another library.
check_symbols() {
    local file newest foreign
    for file; do
        newest=$(readelf --wide --version-info "$file" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' |
            sort -V | tail -n 1)
        [ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -n 1)" = "$glibc" ] ||
            fail "$file needs glibc $newest"
        foreign=$(readelf --wide --dynamic "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
            sed -E '/^(lib(c|m|dl|rt|pthread)|ld-linux[^.]*)\.so/d')
        [ -z "$foreign" ] || fail "$file needs $foreign, which is not in glibc"
        # An object that is loaded into a program must not replace its unwinder.
        case $file in *.so)
            foreign=$(readelf --wide --dyn-syms "$file" | sed -n '/UND/d;/_Unwind/p')
            [ -z "$foreign" ] || fail "$file replaces the unwinder of programs: $foreign"
        esac
    done
}
