#!/usr/bin/env bash
# The recorder, and the replacement locks of `convoy with`, under ThreadSanitizer. The object is
# compiled with it by a nightly toolchain, C programs by gcc; libc is not instrumented, so each lock
# runs only code outside libc. `cargo xtask races` calls it; exit code 2: no nightly toolchain.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
rustc +nightly --version >/dev/null 2>&1 || exit 2
place=$PWD/target/races
# The kind of machine on which ThreadSanitizer and gcc work together here.
triple=x86_64-unknown-linux-gnu
# The exit code of a program in which a race was found.
race=66
sources=crates/record/tests/programs
mkdir -p "$place"
for program in plain stress queue shares turns roles; do
    gcc -O1 -g -fsanitize=thread -pthread -o "$place/$program" "$sources/$program.c"
done

# The object is built as crates/record/build.rs builds it, but for ThreadSanitizer.
gcc -O1 -fPIC -c -o "$place/past_sanitizer.o" "$sources/past_sanitizer.c"
env -u CARGO -u RUSTC -u RUSTUP_TOOLCHAIN \
    CARGO_PROFILE_PRELOAD_{LTO=off,OPT_LEVEL=2,DEBUG=2,STRIP=none} \
    RUSTFLAGS="-Cforce-unwind-tables=yes -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
    rustup run nightly cargo rustc --quiet --package convoy-preload --profile preload --locked \
    --target "$triple" --target-dir "$place" -- \
    -Zexternal-clangrt -C "link-arg=$place/past_sanitizer.o"
object=$place/$triple/preload/libconvoy_preload.so
bad=0

# runs LOCKS RACES RECORDED PROGRAM...: runs each program with these locks (words as MUTEX=fair, or
# libc), recorded or not ("yes", "no" or "no yes"). RACES is `races` if a race must be found: libc's
# locks are not seen, so the counts of the program race.
runs() {
    local locks=$1 races=$2 recorded program words code name reports
    for recorded in $3; do
        for program in "${@:4}"; do
            words=("LD_PRELOAD=$object" "TSAN_OPTIONS=exitcode=$race report_signal_unsafe=0")
            for name in $locks; do [ "$name" = libc ] || words+=("CONVOY_$name"); done
            mkdir -p "$place/files"
            [ "$recorded" = no ] || words+=("CONVOY_RECORD_DIR=$place/files")
            code=0
            # The sanitizer needs its memory at fixed addresses. What follows `env` has the object.
            # shellcheck disable=SC2086
            timeout 120 setarch -R env "${words[@]}" "$place"/$program 2>"$place/reports" \
                >/dev/null || code=$?
            rm -rf "$place/files"
            reports=$(grep -c 'WARNING: ThreadSanitizer' "$place/reports" || true)
            printf '%-32s recorded: %-4s %-18s %3s reports' \
                "$locks" "$recorded" "$program" "$reports"
            case $races-$code in
                sound-0 | "races-$race") echo ;;
                *) echo "  WRONG"; cat "$place/reports"; bad=1 ;;
            esac
        done
    done
}

# Attempts and timeouts are libc's under `spin` and `sleep`, and so are condition variables.
waits=("plain 4 5000 w" "plain 12 3000 w")
mutexes=("plain 4 5000" "plain 12 3000" "stress 4 400" queue "shares 8")
runs libc races "no yes" "plain 4 5000"
runs MUTEX=spin sound no "${waits[@]}"
runs MUTEX=sleep sound no "${waits[@]}"
runs MUTEX=fair sound "no yes" "${mutexes[@]}"
runs MUTEX=handoff sound "no yes" "${mutexes[@]}"
runs "MUTEX=handoff SEM=handoff" sound "no yes" "turns 8 300" roles
exit $bad
