#!/usr/bin/env bash
# Records servers that are started as their units start them (as root, dropping their privileges)
# under a small load, and checks that all of each is recorded, that it serves and ends as without
# the recorder, and that nothing is left. As root, with python3; servers that are not installed are
# left out.
# usage: tests/servers/record.sh CONVOY [nginx|postgresql|mariadb|sshd|redis|memcached]...
set -u
convoy=$(realpath "${1:?usage: record.sh CONVOY [SERVER]...}"); shift
[ "$(id -u)" = 0 ] || { echo "only root can start servers as their units do"; exit 2; }
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d); chmod 755 "$work"; export CONVOY_STORE=none
bad=0
wrong() { echo "  WRONG: $*"; bad=1; }

# traces NAME PROGRAM: prints the directories of a recording, and processes of a server, that are
# left. Those that have ended stay until init has asked for their exit code.
traces() {
  for path in $(sort -u "$work/$1.places"); do [ ! -e "$path" ] || echo "$path"; done
  ps -C "$2" -o stat=,pid=,comm= | grep -v '^Z'
}

# The command behind ExecStart= of a unit, for a shell.
exec_start() {
  sed -e ':a;/\\$/N;s/\\\n//;ta' "/lib/systemd/system/$1.service" | sed -n 's/^ExecStart=-\?//p'
}

wait_for() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# record NAME COMMAND: starts it in the background under the recorder.
record() {
  bash -c "exec '$convoy' record -q -o '$work/$1.json' -- $2" </dev/null >"$work/$1.log" 2>&1 &
  recorder=$!
  : >"$work/$1.pids"; : >"$work/$1.places"
}

# seen NAME PROGRAM: notes the processes of a server while it serves, with the directories that they
# have mapped files of, and looks at the descriptors that they keep.
seen() {
  for pid in $(pgrep "$2"); do
    # Others of that name are not recorded, and those that are gone already prove nothing.
    grep -os '/[^ ]*/convoy-record-[^/]*' "/proc/$pid/maps" >>"$work/$1.places" &&
      echo "$pid" >>"$work/$1.pids"
    open=$(ls -l "/proc/$pid/fd" 2>/dev/null | grep convoy) && wrong "$2 has a descriptor: $open"
  done
  [ -s "$work/$1.pids" ] || wrong "no process of $2 has mapped a file of the recording"
}

# finish NAME PROGRAM: waits for the recorder, and looks at its record and at what is left.
finish() {
  for _ in $(seq 600); do kill -0 $recorder 2>/dev/null || break; sleep 0.1; done
  kill -0 $recorder 2>/dev/null && { wrong "the recording goes on"; kill -TERM $recorder; }
  wait $recorder; code=$?
  [ $code = 0 ] || { wrong "exit code $code"; tail -n 5 "$work/$1.log"; }
  python3 - "$work/$1.json" "$2" "$work/$1.pids" <<'PYTHON' || bad=1
import json, sys
record, name = json.load(open(sys.argv[1])), sys.argv[2]
seen = {int(line) for line in open(sys.argv[3])}
own = [p for p in record["processes"] if p["command"] and name in " ".join(p["command"])]
def acquisitions(process):
    return sum(s["count"] for l in process.get("locks", []) for s in l["sites"])
count = sum(map(acquisitions, own))
threads = sum(p["threads"] for p in own)
print(f"  {len(own)} processes of {name}, {threads} threads, {count} acquisitions;",
      f"{len(seen)} processes were seen")
wrong = []
if not own:
    wrong.append(f"no process of {name} in the record")
for pid in seen - {p["pid"] for p in record["processes"]}:
    wrong.append(f"process {pid} is not in the record")
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
  left=$(traces "$1" "$2")
  [ -z "$left" ] || wrong "left: $left"
}

nginx() {
  record nginx "$(exec_start nginx)"
  wait_for listens 80 || wrong "it does not listen"
  for _ in 1 2 3 4; do
    curl -sfo /dev/null "http://127.0.0.1/?[1-500]" || echo failed &
    loads[$!]=$!
  done >"$work/load"
  wait "${loads[@]}"
  [ -s "$work/load" ] && wrong "$(wc -l <"$work/load") of 4 clients failed"
  seen nginx nginx
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
  seen postgresql postgres
  # The start ends with a test of the server, which must not have been stopped.
  wait_for sh -c '! pgrep -x pg_ctlcluster'
  pg_ctlcluster --skip-systemctl-redirect -m fast "$version-main" stop
  finish postgresql postgres
}

# serve_mariadb NAME COMMAND
serve_mariadb() {
  install -d -o mysql -g mysql -m 755 /run/mysqld
  record "$1" "$2"
  wait_for mysqladmin ping || wrong "it does not listen"
  mysqlslap --concurrency=8 --number-of-queries=2000 --auto-generate-sql >"$work/load" 2>&1 ||
    wrong "mysqlslap: $(tail -n 2 "$work/load")"
  seen "$1" mariadbd
  mysqladmin shutdown
  finish "$1" mariadbd
}

mariadb() {
  # User=mysql of the unit, which systemd changes to before the command.
  serve_mariadb mariadb "$(as_user mysql) $(exec_start mariadb)"
  serve_mariadb mariadb_root "/usr/sbin/mariadbd --user=mysql"
}

as_user() { echo "setpriv --reuid $1 --regid $1 --init-groups"; }

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
  seen sshd sshd
  pkill -TERM -P $recorder
  finish sshd sshd
}

redis() {
  install -d -o redis -g redis -m 2755 /run/redis
  record redis "$(as_user redis) $(exec_start redis-server)"
  wait_for redis-cli ping || wrong "it does not listen"
  redis-benchmark -q -n 20000 -t set,get,incr >"$work/load" 2>&1 || wrong "redis-benchmark"
  seen redis redis-server
  redis-cli shutdown nosave
  finish redis redis-server
}

memcached() {
  install -d -o memcache -g memcache -m 755 /run/memcached
  record memcached "$(exec_start memcached)"
  wait_for listens 11211 || wrong "it does not listen"
  python3 "$here/memcached.py" 11211 4 2 >"$work/load" 2>&1 || wrong "$(tail -n 2 "$work/load")"
  seen memcached memcached
  pkill -TERM -P $recorder
  finish memcached memcached
}

if [ $# = 0 ]; then
  [ -x /usr/sbin/nginx ] && set -- "$@" nginx
  [ -x /usr/bin/pg_ctlcluster ] && set -- "$@" postgresql
  [ -x /usr/sbin/mariadbd ] && set -- "$@" mariadb
  [ -x /usr/sbin/sshd ] && set -- "$@" sshd
  [ -x /usr/bin/redis-server ] && set -- "$@" redis
  [ -x /usr/bin/memcached ] && set -- "$@" memcached
fi
[ $# -gt 0 ] || { echo "no server that this script knows is installed"; exit 2; }
for server; do echo "$server"; declare -A loads=(); "$server"; done
[ $bad = 0 ] && rm -rf "$work" || echo "kept: $work"
exit $bad
