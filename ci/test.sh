#!/usr/bin/env bash
# The steps of the pipelines on a repository with a planted regression: 1 and the comment for the
# slower change, 0 for a change of a comment.
#
#   test.sh CONVOY             the program to test
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CONVOY
CONVOY=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
repository=$work/repository
git init -q "$repository"
cd "$repository"
git config user.name planted
git config user.email planted@localhost
# The journal's mutex is held while its owner sleeps; the regression leaves one journal of six.
cp "$here/../examples/slow-program/orders.c" .
printf 'bench: orders.c\n\tcc -O1 -pthread -DJOURNALS=%s orders.c -o bench\n' 6 >Makefile
printf '/bench\ncomment.md\n' >.gitignore
git add . && git commit -qm "Serve orders"
git tag base
sed -i 's/JOURNALS=6/JOURNALS=1/' Makefile
git commit -qam "Simplify journals"
git tag slower
git checkout -q base
sed -i '1i # Orders.' Makefile
git commit -qam "Name the program"
git tag same

export CONVOY_BUILD=make CONVOY_BENCH=./bench CONVOY_MINUTES=1 CONVOY_FAIL_IF=slower:10%
for case in slower:1 same:0; do
    git checkout -q "${case%:*}"
    code=0
    "$here/compare.sh" base || code=$?
    echo "--- ${case%:*}: exit code $code"
    cat comment.md
    [[ $code == "${case#*:}" ]]
    grep -q 'Before: ' comment.md
    [[ ${case%:*} == same ]] || grep -qi 'slower' comment.md
    rm comment.md
done
[[ $(git worktree list | wc -l) == 1 ]]
echo "ci/test.sh: ok"
