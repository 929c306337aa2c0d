#!/bin/sh
# Makes a git repository in DIRECTORY with a history of kernel.toml from the preset 2.6.25 to
# 2.6.26-rc1: each commit changes one mechanism in which they differ, the semaphore in the middle.
# The order of the others is ours.
# usage: history.sh DIRECTORY
set -eu
mkdir -p "$1"
cd "$1"
git init -q -b main .
git config user.name "Example"
git config user.email "example@example.org"
printf '# The kernel of this commit.\nbased_on = "2.6.25"\n' > kernel.toml
git add kernel.toml
git commit -q -m "Linux 2.6.25"

# change SUBJECT LINE...: one commit that adds these lines.
change() {
    subject=$1
    shift
    printf '%s\n' "$@" >> kernel.toml
    git commit -q -a -m "$subject"
}
# The two ioctls are what a shell has less: three sections instead of five.
change "tty: Ioctls take no big kernel lock" \
    'bkl_traffic.terminal_ioctl = false' 'bkl_traffic.events_per_shell = 3.0'
change "sched: Virtual time of the queue" 'sched.cfs.virtual_time = "queue"'
change "sched: Preempt at wakeups after 10 ms" 'sched.cfs.wakeup_granularity_ns = 10_000_000'
change "Generic semaphore implementation" 'locks.semaphore = "handoff"'
change "sched: Compare loads of groups" 'sched.balance.group_shares = true'
change "sched: Look at the newest tasks first" 'sched.cfs.order = "newest-first-but-last"'
change "sched: A timer for the limit of real-time tasks" 'sched.rt.limit = "timer-shared"'
