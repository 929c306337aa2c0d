#!/bin/sh
# Finds the commit of examples/bisect-2008/history.sh that made AIM7 slower, on a virtual machine
# with USERS users (60), each run with another seed.
# usage: find.sh DIRECTORY [USERS [FLAG OF CONVOY BISECT...]]
set -eu
directory=$1
users=${2:-60}
shift
[ $# -eq 0 ] || shift
sh "$(dirname "$0")/history.sh" "$directory"
cd "$directory"
git bisect start main "$(git rev-list --max-parents=0 main)" >&2
# The length of CONVOY_PAD differs from run to run.
convoy bisect --metric-json points.0.jobs_per_min --higher-is-better --unit jobs/min "$@" run \
    "convoy lab sim --kernel kernel.toml --machine quad-2008-two-dies --users $users \
    --seed \$((1 + \${#CONVOY_PAD})) --format json --quiet"
