#!/usr/bin/env bash
# Records servers that are started as their units start them (as root, dropping their privileges)
# under a small load, and checks that all of each is recorded, that it serves and ends as without
# the recorder, and that nothing is left. As root, with python3; servers that are not installed are
# left out.
# usage: tests/servers/record.sh CONVOY [nginx|postgresql|mariadb|sshd]...
set -u
convoy=$(realpath "${1:?usage: record.sh CONVOY [SERVER]...}"); shift
[ "$(id -u)" = 0 ] || { echo "only root can start servers as their units do"; exit 2; }
work=$(mktemp -d); chmod 755 "$work"; export CONVOY_STORE=none
bad=0
wrong() { echo "  WRONG: $*"; bad=1; }

# Prints directories of recordings whose recorder has exited, and processes of a server.
traces() {
  for lock in {/dev/shm,/run,/tmp,/var/tmp}/convoy-record-*/lock; do
    [ -e "$lock" ] && flock -ns "$lock" true && echo "$lock"
  done
  pgrep -l "$1"
}

# The command behind ExecStart= of a unit, for a shell.
exec_start() {
  sed -e ':a;/\\$/N;s/\\\n//;ta' "/lib/systemd/system/$1.service" | sed -n 's/^ExecStart=-\?//p'
}

wait_for() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# record NAME COMMAND: starts it in the background under the recorder.
record() {
  bash -c "exec '$convoy' record -q -o '$work/$1.json' -- $2" </dev/null >"$work/$1.log" 2>&1 &
  recorder=$!
}

# finish NAME PROGRAM: waits for the recorder, and looks at its record and at what is left.
finish() {
  for _ in $(seq 600); do kill -0 $recorder 2>/dev/null || break; sleep 0.1; done
  kill -0 $recorder 2>/dev/null && { wrong "the recording goes on"; kill -TERM $recorder; }
  wait $recorder; code=$?
  [ $code = 0 ] || { wrong "exit code $code"; tail -n 5 "$work/$1.log"; }
  python3 - "$work/$1.json" "$2" <<'PYTHON' || bad=1
import json, sys
record, name = json.load(open(sys.argv[1])), sys.argv[2]
own = [p for p in record["processes"] if p["command"] and name in " ".join(p["command"])]
def acquisitions(process):
    return sum(s["count"] for l in process.get("locks", []) for s in l["sites"])
count = sum(map(acquisitions, own))
threads = sum(p["threads"] for p in own)
print(f"  {len(own)} processes of {name}, {threads} threads, {count} acquisitions")
wrong = []
if not own:
    wrong.append(f"no process of {name} in the record")
for p in record["processes"]:
    lost = p.get("unrecorded", {})
    if p.get("threads_lost") or lost.get("threads") or any(lost.get("children", [])):
        wrong.append(f"process {p['pid']}: {p.get('threads_lost')} threads, {lost} not recorded")
for sentence in record["unseen"]:
    if "not recorded" in sentence and "kernel sees" not in sentence or "Locks cost" in sentence:
        wrong.append(sentence)
    print("  ", sentence)
for text in wrong:
    print("  WRONG:", text)
sys.exit(bool(wrong))
PYTHON
  sleep 0.5
  left=$(traces "$2")
  [ -z "$left" ] || wrong "left: $left"
}

nginx() {
  record nginx "$(exec_start nginx)"
  wait_for listens 80 || wrong "it does not listen"
  for _ in 1 2 3 4; do
    for _ in $(seq 50); do curl -sfo /dev/null http://127.0.0.1/ || echo failed; done &
    loads[$!]=$!
  done >"$work/load"
  wait "${loads[@]}"
  [ -s "$work/load" ] && wrong "$(wc -l <"$work/load") requests failed"
  kill -QUIT "$(cat /run/nginx.pid)"
  finish nginx nginx
}

postgresql() {
  version=$(ls /etc/postgresql | head -n 1)
  as() { (cd / && runuser -u postgres -- "$@"); }
  record postgresql "$(exec_start postgresql@ | sed "s/%i/$version-main/")"
  wait_for as pg_isready || wrong "it does not listen"
  { as pgbench -i -q postgres && as pgbench -c 8 -t 50 postgres; } >"$work/load" 2>&1 ||
    wrong "pgbench: $(tail -n 2 "$work/load")"
  as pgbench -i -I d -q postgres >>"$work/load" 2>&1
  pg_ctlcluster --skip-systemctl-redirect -m fast "$version-main" stop
  finish postgresql postgres
}

mariadb() {
  # User=mysql of the unit, which systemd changes to before the command.
  install -d -o mysql -g mysql -m 755 /run/mysqld
  record mariadb "setpriv --reuid mysql --regid mysql --init-groups $(exec_start mariadb)"
  wait_for mysqladmin ping || wrong "it does not listen"
  mysqlslap --concurrency=8 --number-of-queries=2000 --auto-generate-sql >"$work/load" 2>&1 ||
    wrong "mysqlslap: $(tail -n 2 "$work/load")"
  mysqladmin shutdown
  finish mariadb mariadbd
}

mariadb_root() {
  install -d -o mysql -g mysql -m 755 /run/mysqld
  record mariadb_root "/usr/sbin/mariadbd --user=mysql"
  wait_for mysqladmin ping || wrong "it does not listen"
  mysqlslap --concurrency=8 --number-of-queries=2000 --auto-generate-sql >"$work/load" 2>&1 ||
    wrong "mysqlslap: $(tail -n 2 "$work/load")"
  mysqladmin shutdown
  finish mariadb_root mariadbd
}

sshd() {
  install -d -m 755 /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$work/key"
  cp "$work/key.pub" "$work/authorized"; chmod 600 "$work/authorized"
  SSHD_OPTS="-p 2222 -o ListenAddress=127.0.0.1 -o PermitRootLogin=yes -o StrictModes=no"
  export SSHD_OPTS="$SSHD_OPTS -o AuthorizedKeysFile=$work/authorized"
  record sshd "$(exec_start ssh)"
  wait_for listens 2222 || wrong "it does not listen"
  for _ in $(seq 10); do
    ssh -qp 2222 -i "$work/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
      root@127.0.0.1 true </dev/null || wrong "ssh failed"
  done
  pkill -TERM -P $recorder
  finish sshd sshd
}

if [ $# = 0 ]; then
  [ -x /usr/sbin/nginx ] && set -- "$@" nginx
  [ -x /usr/bin/pg_ctlcluster ] && set -- "$@" postgresql
  [ -x /usr/sbin/mariadbd ] && set -- "$@" mariadb mariadb_root
  [ -x /usr/sbin/sshd ] && set -- "$@" sshd
fi
[ $# -gt 0 ] || { echo "none of nginx, PostgreSQL, MariaDB and sshd is installed"; exit 2; }
for server; do echo "$server"; declare -A loads=(); "$server"; done
[ $bad = 0 ] && rm -rf "$work" || echo "kept: $work"
exit $bad
