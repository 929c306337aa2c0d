#!/usr/bin/env bash
# Records servers under their usual load in four ways (as root with kernel events, as root without,
# as an ordinary user, and attached to from outside), prints the first sentence of `explain` and
# the server's own statistics, and checks the sentence. results/servers.md has the results. As root;
# servers that are not installed are left out. Data lie in a new directory under /tmp.
# usage: tests/servers/verdicts.sh CONVOY [mariadb|rows|postgresql|redis|memcached|nginx|
#        readrandom|fillrandom|go|java]...      MODES="root off user pid" SECONDS_OF_LOAD=6
set -u
convoy=$(realpath "${1:?usage: verdicts.sh CONVOY [SERVER]...}"); shift
[ "$(id -u)" = 0 ] || { echo "only root can record as root"; exit 2; }
here=$(realpath "$(dirname "$0")")
modes=${MODES:-root off user pid}; load_s=${SECONDS_OF_LOAD:-6}
work=$(mktemp -d); chmod 755 "$work"; export CONVOY_STORE=none
bin=$work/convoy; cp "$convoy" "$bin"; chmod 755 "$bin"
bad=0

wait_for() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
as() { local user=$1; shift; (cd / && setpriv --reuid "$user" --regid "$(id -g "$user")" \
  --init-groups "$@"); }

# start USER COMMAND...: starts the server in the background, recorded as the mode says.
start() {
  local user=$1; shift
  rm -f "$work/record.json"
  full=no; look_around
  local drop=(setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups)
  case $mode in
    root) set -- "$bin" record -q -o "$work/record.json" -- "${drop[@]}" "$@" ;;
    off) set -- "$bin" record --kernel off -q -o "$work/record.json" -- "${drop[@]}" "$@" ;;
    user) set -- "${drop[@]}" "$bin" record -q -o "$data/record.json" -- "$@" ;;
    pid) set -- "${drop[@]}" "$@" ;;
  esac
  (cd / && exec "$@") </dev/null >"$work/log" 2>&1 &
  server=$!
}

# attach PID: records from outside for as long as the load lasts.
attach() {
  [ "$mode" = pid ] || return 0
  "$bin" record -q --seconds "$load_s" -o "$work/record.json" --pid "$1" >>"$work/log" 2>&1 &
  attached=$!
  sleep 1
}

# look_around: whether other programs use more than a quarter of the CPUs while no server runs;
# only then a sentence about a full machine is right.
look_around() {
  local idle all idle_now all_now
  # Idle ticks, and all.
  cpu() { awk '/^cpu / { for (i = 2; i < 10; i++) n += $i; print $5 + $6, n }' /proc/stat; }
  read -r idle all < <(cpu)
  sleep 0.5
  read -r idle_now all_now < <(cpu)
  [ $((4 * (idle_now - idle))) -lt $((3 * (all_now - all))) ] && full=yes
  [ "$full" = yes ]
}

# ended EXPECTED [ON_A_FULL_MACHINE]: waits for the end, and checks the first sentence against an
# expression.
ended() {
  [ "$mode" = pid ] && wait "$attached"
  for _ in $(seq 1200); do kill -0 "$server" 2>/dev/null || break; sleep 0.1; done
  kill -0 "$server" 2>/dev/null && { echo "  WRONG: it goes on"; kill "$server"; bad=1; }
  wait "$server"
  [ -e "$data/record.json" ] && mv "$data/record.json" "$work/record.json"
  if "$bin" explain "$work/record.json" >"$work/text" 2>>"$work/log"; then
    said=$(sed '/^$/,$d' "$work/text" | tr -s ' \n' ' ')
    echo "  Convoy ($mode): $said"
    local right=$1
    [ $# -gt 1 ] && look_around && right="$1|$2"
    grep -Eq "$right" <<<"$said" || { echo "  WRONG: /$right/ was expected"; bad=1; }
  else
    echo "  WRONG: no record"; tail -n 3 "$work/log"; bad=1
  fi
}

mysql_() { mysql --no-defaults -S "$data/s" -u root "$@"; }
sysbench_() {
  sysbench "$1" --mysql-socket="$data/s" --mysql-user=root --mysql-db=test --threads=16 "${@:2}" |
    grep -E 'transactions:|avg:'
}

mariadb_with() { # EXPECTED ON_A_FULL_MACHINE TEST OPTIONS...
  local expected=$1 full=$2; shift 2
  place mysql
  as mysql mariadb-install-db --no-defaults --datadir="$data/data" \
    --auth-root-authentication-method=normal >/dev/null 2>&1
  start mysql mariadbd --no-defaults --datadir="$data/data" --socket="$data/s" --skip-networking \
    --performance-schema=ON --performance-schema-instrument='wait/synch/%=ON' \
    --pid-file="$data/pid"
  wait_for mysqladmin --no-defaults -S "$data/s" -u root ping
  mysql_ -e "create database if not exists test"
  sysbench_ "$@" prepare >/dev/null
  attach "$(cat "$data/pid")"
  sysbench_ "$@" --time="$load_s" run
  mysql_ -t -e "select event_name, count_star count, round(sum_timer_wait/1e12,2) seconds
    from performance_schema.events_waits_summary_global_by_event_name
    where event_name like 'wait/synch/%' order by sum_timer_wait desc limit 5;
    show global status like 'Innodb_row_lock_%s'"
  mysqladmin --no-defaults -S "$data/s" -u root shutdown
  ended "$expected" "$full"
}
mariadb() {
  mariadb_with 'Locks cost little' 'at many places' \
    oltp_read_write --tables=4 --table-size=10000
}
rows() {
  # Sessions wait for the row, and until one of them has flushed the log for all. Latches of InnoDB
  # spin before they wait, for long if their owners have no CPU.
  mariadb_with 'for each other' 'spinning in mariadbd' \
    oltp_update_index --tables=1 --table-size=1
}

postgresql() {
  place postgres
  local pg; pg=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
  sql() { as postgres psql -h "$data" -p 5499 -Atc "$1" postgres; }
  as postgres "$pg/initdb" -D "$data/data" >/dev/null
  start postgres "$pg/postgres" -D "$data/data" -k "$data" -p 5499 -c listen_addresses=
  wait_for as postgres "$pg/pg_isready" -h "$data" -p 5499
  as postgres pgbench -h "$data" -p 5499 -iq postgres 2>/dev/null
  echo 'update pgbench_accounts set abalance = abalance + 1 where aid = 1;' >"$data/one.sql"
  attach "$(head -n 1 "$data/data/postmaster.pid")"
  for _ in $(seq 30); do
    sql "select coalesce(wait_event_type || ':' || wait_event, 'runs') from pg_stat_activity
         where query like 'update%'"
    sleep 0.1
  done >"$work/waits" 2>/dev/null &
  sampler=$!
  as postgres pgbench -h "$data" -p 5499 -n -c 16 -T "$load_s" -f "$data/one.sql" postgres |
    grep -E 'tps|latency'
  wait "$sampler"
  sort "$work/waits" | uniq -c | sort -rn | head -n 4
  as postgres "$pg/pg_ctl" -D "$data/data" -m fast stop >/dev/null
  # Without the kernel only semaphores of LWLocks are seen, of which a slow run has few.
  local few='^What waits cost is not known: (1[5-9]|2[0-9]|3[0-9]) processes of postgres'
  [ "$mode" = root ] || [ "$mode" = pid ] && few='^Processes wait for each other: 1[5-9]'
  ended '^Processes wait for each other: 1[5-9]' "$few"
}

redis() {
  place redis
  start redis redis-server --port 6399 --io-threads 4 --io-threads-do-reads yes --save '' \
    --dir "$data"
  wait_for redis-cli -p 6399 ping
  attach "$(redis-cli -p 6399 info server | sed -n 's/process_id:\([0-9]*\).*/\1/p')"
  timeout "$load_s" redis-benchmark -p 6399 -t set -n 100000000 -c 50 -q >/dev/null
  redis-cli -p 6399 info cpu | grep -E 'user(_main_thread)?:'
  redis-cli -p 6399 info stats | grep total_commands
  redis-cli -p 6399 shutdown nosave
  local expected='spinning in IOThreadMain'
  [ "$mode" = pid ] && expected='Locks cost little'
  ended "$expected"
}

memcached_() {
  place memcache
  start memcache memcached -p 11299 -t 4 -m 64 -U 0 -P "$data/pid"
  wait_for listens 11299
  attach "$(cat "$data/pid")"
  python3 "$here/memcached.py" 11299 16 "$load_s"
  kill -TERM "$(cat "$data/pid")"
  # Where other programs use the CPUs, owners lose them.
  ended 'Locks cost little' 'at many places|waiting for [0-9]+ mutexes'
}

nginx_() {
  place www-data
  echo '<p>page</p>' >"$data/index.html"
  cat >"$data/nginx.conf" <<CONF
worker_processes 4; daemon off; pid $data/pid; error_log $data/errors;
events { worker_connections 512; accept_mutex on; }
http { access_log $data/log; client_body_temp_path $data; proxy_temp_path $data/p;
  fastcgi_temp_path $data/f; uwsgi_temp_path $data/u; scgi_temp_path $data/s;
  limit_req_zone \$binary_remote_addr zone=z:1m rate=1000000r/s;
  server { listen 127.0.0.1:8099; root $data; location / { limit_req zone=z burst=9999 nodelay; }
    location = /status { stub_status; } } }
CONF
  start www-data nginx -c "$data/nginx.conf" -e "$data/errors"
  wait_for listens 8099
  attach "$(cat "$data/pid")"
  wrk -t 2 -c 32 -d "$load_s" http://127.0.0.1:8099/ | grep -E 'Requests/sec'
  curl -s http://127.0.0.1:8099/status | sed -n 3p
  kill -QUIT "$(cat "$data/pid")"
  ended 'Locks cost little|Nothing was recorded' "kernel's spinlock in exit_to_user_mode_loop"
}

db_bench_with() { # EXPECTED ON_A_FULL_MACHINE OPTIONS...
  local expected=$1 full=$2; shift 2
  start nobody db_bench "$@" --num=100000 --threads=16 --duration=$((load_s + 2)) --db="$data/db"
  sleep 1
  [ "$mode" = pid ] && attach "$(pgrep -nx db_bench)"
  ended "$expected" "$full"
  grep -ao '[a-z]* *: .* ops/sec' "$work/log"
}
readrandom() {
  place nobody
  as nobody db_bench --benchmarks=fillrandom --num=100000 --db="$data/db" >/dev/null 2>&1
  # Owners of a lock of the heap lose their CPUs, too, where other programs use these.
  db_bench_with LRUCacheShard "libc's lock of the heap" \
    --use_existing_db=1 --benchmarks=readrandom --cache_numshardbits=0 \
    --cache_size=1000000
}
fillrandom() {
  place nobody
  # Where other programs use the CPUs, the threads wait for these.
  db_bench_with 'WriteThread::(Blocking)?AwaitState' 'they wait for CPUs' --benchmarks=fillrandom
}

go_() {
  place nobody
  GOCACHE=$work/cache GO111MODULE=off CGO_ENABLED=0 go build -o "$work/service" "$here/service.go"
  start nobody "$work/service" 8077
  wait_for curl -sf http://127.0.0.1:8077/hit
  attach "$(pgrep -nf "$work/service")"
  wrk -t 1 -c 16 -d "$load_s" http://127.0.0.1:8077/hit | grep -E 'Requests/sec'
  curl -s http://127.0.0.1:8077/debug/pprof/mutex >"$work/mutex.pb.gz"
  curl -s http://127.0.0.1:8077/quit
  local expected='in main.handler.*waiting for|main.handler.* waited'
  [ "$mode" = user ] || [ "$mode" = off ] && expected='The cost of locks is not known'
  ended "$expected"
  echo "  pprof: $("$bin" explain "$work/mutex.pb.gz" | sed '/^$/,$d' | tr -s ' \n' ' ')"
}

java_() {
  place nobody
  javac -d "$work" "$here/Service.java"
  start nobody java -XX:StartFlightRecording=filename="$data/run.jfr",settings=profile \
    -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -cp "$work" Service "$((load_s + 3))"
  sleep 2
  [ "$mode" = pid ] && attach "$(pgrep -nx java)"
  local expected="Java's monitors"
  [ "$mode" = pid ] && expected='What monitors of Java cost is not known|monitor'
  ended "$expected"
  jfr print --events jdk.JavaMonitorEnter "$data/run.jfr" >"$work/monitors"
  awk '/duration/ { n++; s += $3 } END { print "  JFR: " n " waits, " s / 1e3 " s" }' \
    "$work/monitors"
  echo "  JFR: $("$bin" explain "$work/monitors" | sed '/^$/,$d' | tr -s ' \n' ' ')"
}

# place USER: a new directory of that user's for the data of a server.
place() { data=$work/data; rm -rf "$data"; install -d -o "$1" -g "$(id -g "$1")" "$data"; }

have() { command -v "$1" >/dev/null; }
if [ $# = 0 ]; then
  have mariadbd && have sysbench && set -- "$@" mariadb rows
  ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && have pgbench && set -- "$@" postgresql
  have redis-server && have redis-benchmark && set -- "$@" redis
  have memcached && set -- "$@" memcached
  have nginx && have wrk && set -- "$@" nginx
  have db_bench && set -- "$@" readrandom fillrandom
  have go && have wrk && set -- "$@" go
  have javac && have jfr && set -- "$@" java
fi
[ $# -gt 0 ] || { echo "no server with its load program is installed"; exit 2; }
for name; do
  for mode in $modes; do
    echo "$name, $mode"
    case $name in memcached | nginx | go | java) "${name}_" ;; *) "$name" ;; esac
  done
done
[ $bad = 0 ] && rm -rf "$work" || echo "kept: $work"
exit $bad
