#!/usr/bin/env bash
# The steps of the pipelines on a repository with a planted regression: 1 and the comment for the
# slower change, 0 for a change of a comment.
#
#   test.sh CONVOY [KIND]...   the program to test; kinds of CONVOY_KIND, or all of them: criterion
#                              needs cargo, pytest a python3 with pytest-benchmark
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CONVOY
CONVOY=$(realpath "$1")
shift
kinds=("$@")
[[ ${#kinds[@]} -gt 0 ]] || kinds=(command criterion pytest)
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
# The same number for the other kinds: shares of a fixed work, in one thread.
cat >test_orders.py <<'END'
JOURNALS = 6


def test_orders(benchmark):
    benchmark.pedantic(lambda: sum(range(1200000 // JOURNALS)), rounds=40, warmup_rounds=5)
END
mkdir benches src
touch src/lib.rs
cat >Cargo.toml <<'END'
[package]
name = "planted"
version = "0.1.0"
edition = "2021"

[dev-dependencies]
criterion = { version = "0.5", default-features = false, features = ["cargo_bench_support"] }

[[bench]]
name = "orders"
harness = false
END
cat >benches/orders.rs <<'END'
use criterion::{black_box, criterion_group, criterion_main, Criterion};
const JOURNALS: u64 = 6;
fn orders(criterion: &mut Criterion) {
    let work = || (0..black_box(600_000 / JOURNALS)).fold(0, |sum, one| black_box(sum ^ one));
    criterion.bench_function("orders", |bencher| bencher.iter(work));
}
criterion_group!(benches, orders);
criterion_main!(benches);
END
printf '/bench\n/target\nCargo.lock\n__pycache__\ncomment.md\n' >.gitignore
git add . && git commit -qm "Serve orders"
git tag base
sed -i 's/JOURNALS=6/JOURNALS=1/' Makefile
sed -i 's/\(JOURNALS.* = \)6/\11/' test_orders.py benches/orders.rs
git commit -qam "Simplify journals"
git tag slower
git checkout -q base
sed -i '1i # Orders.' Makefile
git commit -qam "Name the program"
git tag same

export CONVOY_MINUTES=1 PYTHONPATH=$here/../python
for kind in "${kinds[@]}"; do
    # Runs that are not interleaved drift with the load of the machine; the regression is 500 %.
    export CONVOY_KIND=$kind CONVOY_BUILD=true CONVOY_FAIL_IF=slower:100%
    case $kind in
    command) export CONVOY_BUILD=make CONVOY_BENCH=./bench CONVOY_FAIL_IF=slower:10% ;;
    criterion) export CONVOY_BENCH="cargo bench -q --bench orders" ;;
    pytest) export CONVOY_BENCH="python3 -m pytest -q -p no:cacheprovider test_orders.py" ;;
    esac
    for case in slower:1 same:0; do
        git checkout -q "${case%:*}"
        code=0
        "$here/compare.sh" base || code=$?
        echo "--- $kind, ${case%:*}: exit code $code"
        cat comment.md
        [[ $code == "${case#*:}" ]]
        grep -q 'Before: ' comment.md
        [[ ${case%:*} == same ]] || grep -qi 'slower' comment.md
        rm comment.md
    done
done
[[ $(git worktree list | wc -l) == 1 ]]
echo "ci/test.sh: ok"
