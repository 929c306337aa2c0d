#!/bin/sh
# A PostgreSQL server without clients. It does not run as root, so root starts it as another user.
# usage: postgres.sh build DIRECTORY
#        postgres.sh DIRECTORY idle SECONDS
set -eu
as_user() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
  else
    "$@"
  fi
}
if [ "$1" = build ]; then
  command -v postgres >/dev/null && command -v initdb >/dev/null || exit 1
  as_user initdb --pgdata "$2/data" --no-sync --no-instructions >/dev/null
  exit
fi
as_user timeout --signal INT "$3" postgres -D "$1/data" -k "$1" -c listen_addresses= || true
