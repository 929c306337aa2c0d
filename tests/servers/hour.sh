#!/usr/bin/env bash
# Records a program with 1000 threads and 10,000 locks, each with a name of its own, and checks the
# size of the record and the time that `explain` takes. A record is bounded: a minute fills
# nearly all of it, and a second run with 100 locks shows the size of a lock with full tables.
# Threads pause PAUSE_MS after a hundred acquisitions: 20 fills two CPUs, 1000 leaves them nearly
# free.
# usage: tests/servers/hour.sh CONVOY [SECONDS [PAUSE_MS]]
set -u
convoy=$(realpath "${1:?usage: hour.sh CONVOY [SECONDS]}"); seconds=${2:-60}; pause=${3:-20}
command -v cc >/dev/null || { echo "no C compiler"; exit 2; }
work=$(mktemp -d); export CONVOY_STORE=none; bad=0
cc -O1 -g -pthread -o "$work/hour" "$(dirname "$0")/../../crates/record/tests/programs/hour.c" ||
  exit 1
for locks in 10000 100; do
  "$convoy" record -q -o "$work/$locks.json" -- "$work/hour" 1000 "$locks" "$seconds" "$pause" \
    >/dev/null
  begin=$(date +%s%N)
  "$convoy" explain "$work/$locks.json" >"$work/text" || bad=1
  ms=$((($(date +%s%N) - begin) / 1000000))
  bytes=$(stat -c %s "$work/$locks.json")
  echo "$locks locks, $seconds s, pauses of $pause ms: $bytes bytes, explained in $ms ms"
  [ "$bytes" -lt 20000000 ] || { echo "  WRONG: more than 20 MB"; bad=1; }
  [ "$ms" -lt 2000 ] || { echo "  WRONG: more than 2 s"; bad=1; }
done
rm -rf "$work"
exit $bad
