#!/usr/bin/env bash
# Compares the commit HEAD of the repository in the current directory with an earlier one, for a
# pipeline: builds both in fresh checkouts, since old files of a build would be measured otherwise,
# measures them in random order, and writes the comment for the change request.
#
#   compare.sh BASE            the revision before the change, such as origin/main
#
# Environment: CONVOY_BENCH, the command to measure (required); CONVOY_BUILD, run once per revision;
# CONVOY_MINUTES, the time for measuring (5); CONVOY_FAIL_IF, such as slower:3%, to fail only for
# larger differences; CONVOY_KIND: command (default), criterion or pytest; CONVOY_COMMENT, the file
# of the comment (comment.md); CONVOY, the program.
#
# Exit code: that of `convoy compare`, so 1 if the change is slower.
set -euo pipefail

fail() {
    echo "compare.sh: $1" >&2
    exit "${2:-2}"
}
[[ $# == 1 ]] || fail "usage: compare.sh BASE"
[[ -n "${CONVOY_BENCH:-}" ]] || fail "set CONVOY_BENCH to the command to measure"
convoy=${CONVOY:-convoy}
comment=$(realpath -m "${CONVOY_COMMENT:-comment.md}")
minutes=${CONVOY_MINUTES:-5}
base_commit=$(git rev-parse --verify "$1^{commit}") || fail "no revision $1: fetch it first"

work=$(mktemp -d)
trap 'rm -rf "$work"; git worktree prune' EXIT
git worktree add --quiet --detach "$work/base" "$base_commit"
git worktree add --quiet --detach "$work/change" HEAD

# Runs a command in the checkout of a side.
on() { (cd "$work/$1" && bash -euo pipefail -c "$2") >&2; }
for side in base change; do
    on "$side" "${CONVOY_BUILD:-true}" || fail "the build of the $side failed" 3
done

options=(--format markdown --output "$comment" --quiet -n before -n after)
[[ -n "${CONVOY_FAIL_IF:-}" ]] && options+=(--fail-if "$CONVOY_FAIL_IF")
code=0
case ${CONVOY_KIND:-command} in
command)
    seconds=$(awk "BEGIN { print $minutes * 60 }")
    quoted=$(printf %q "$CONVOY_BENCH")
    "$convoy" compare "${options[@]}" --max-time "$seconds" \
        "cd $(printf %q "$work/base") && bash -c $quoted" \
        "cd $(printf %q "$work/change") && bash -c $quoted" || code=$?
    ;;
criterion)
    # The directories of results are joined, because criterion names both sides itself.
    export CARGO_TARGET_DIR=$work/target
    on base "$CONVOY_BENCH -- --save-baseline base" || fail "the benchmark failed" 3
    on change "$CONVOY_BENCH -- --baseline base" || fail "the benchmark failed" 3
    "$convoy" compare "${options[@]}" "$work/target/criterion" || code=$?
    ;;
pytest)
    for side in base change; do
        on "$side" "$CONVOY_BENCH --benchmark-save-data --benchmark-json=$work/$side.json" ||
            fail "the benchmark failed" 3
        python3 -m convoy_perf.pytest_benchmark "$work/$side.json" "$work/$side-times.json"
    done
    "$convoy" compare "${options[@]}" "$work/base-times.json" "$work/change-times.json" || code=$?
    ;;
*) fail "CONVOY_KIND is command, criterion or pytest" ;;
esac
# An error of the comparison has no table: the pipeline fails with its message.
[[ $code == 0 || $code == 1 ]] || exit "$code"
{
    echo
    echo "Before: ${base_commit:0:12}; measured for at most $minutes minutes by $("$convoy" --version)."
} >>"$comment"
exit "$code"
