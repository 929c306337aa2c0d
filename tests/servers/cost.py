#!/usr/bin/env python3
"""Measures what recording costs servers under load: throughput, and the CPU time of a request.

usage: cost.py CONVOY [--only NAME,...] [--pairs N] [--seconds S] [--modes MODE,...]
               [--before WORDS] [--write FILE]

Each server is started in every mode in random order, once in each round, and gets the same load for
S seconds. Figures are medians over the rounds of the ratio to the plain run of the same round, with
the least and the most. CPU time is that of the server's processes, system time included; what the
recorder's own process uses meanwhile is the last figure, in CPUs. Servers that are not installed
are left out. As root; exit code 2: none is installed. WORDS come before the commands of the server and of its load: `chrt -r 1` on
a machine where other programs run. --write replaces the table in FILE. Exit code 1: the default exceeds 3 % of
the throughput or 5 % of the CPU time of a server.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import generated  # noqa: E402

RECORD = ["{convoy}", "record", "-q", "-o", "/dev/null"]
MODES = {
    "plain": [],
    "off": [*RECORD, "--kernel", "off", "--"],
    "default": [*RECORD, "--"],
    "contended": [*RECORD, "--contended", "--"],
    "top": [],
}
BUDGET = {"rate": 0.97, "cpu": 1.05}
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
HTTP = ["wrk", "-t", "1", "-c", "16", "-d", "{seconds}", "http://127.0.0.1:{port}/"]
HTTP_REQUESTS = r"(\d+) requests in"
NGINX = """worker_processes 2; daemon off; pid {dir}/pid; error_log {dir}/errors;
events {{ worker_connections 512; }}
http {{ access_log {dir}/log; client_body_temp_path {dir}/b; proxy_temp_path {dir}/p;
  fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {{ listen 127.0.0.1:{port}; root {dir}; }} }}"""
APACHE = """ServerRoot {dir}
ServerName localhost
Listen 127.0.0.1:{port}
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
PidFile {dir}/pid
ErrorLog {dir}/errors
User nobody
Group nogroup
DocumentRoot {dir}
"""
LIGHTTPD = """server.document-root = "{dir}"
server.port = {port}
server.bind = "127.0.0.1"
index-file.names = ("index.html")
"""
HAPROXY = """global
  nbthread 2
defaults
  mode http
  timeout client 9s
  timeout server 9s
  timeout connect 9s
frontend f
  bind 127.0.0.1:{port}
  http-request return status 200 content-type text/plain string page
"""
VARNISH = """vcl 4.1;
backend default none;
sub vcl_recv {{ return (synth(200)); }}
"""
UNBOUND = """server:
  interface: 127.0.0.1
  port: {port}
  num-threads: 2
  do-daemonize: no
  chroot: ""
  username: ""
  pidfile: "{dir}/pid"
  use-syslog: no
  local-zone: "test." static
  local-data: "a.test. A 127.0.0.1"
"""
MOSQUITTO = "listener {port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\n"
NODE = """const http = require("http");
http.createServer((request, response) => response.end("page")).listen({port}, "127.0.0.1");
"""
GO = """package main

import (
    "fmt"
    "net/http"
    "sync"
)

var lock sync.Mutex
var counts = map[string]int{{}}

func main() {{
    http.HandleFunc("/", func(answer http.ResponseWriter, request *http.Request) {{
        lock.Lock()
        counts[request.RemoteAddr]++
        lock.Unlock()
        fmt.Fprintln(answer, "page")
    }})
    fmt.Println(http.ListenAndServe("127.0.0.1:{port}", nil))
}}
"""
JAVA = """import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

public class Main {{
    public static void main(String[] words) throws Exception {{
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", {port}), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {{
            exchange.sendResponseHeaders(200, 4);
            exchange.getResponseBody().write("page".getBytes());
            exchange.close();
        }});
        server.start();
    }}
}}
"""
PYTHON = """import http.server

class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"page")

    def log_message(self, *words):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", {port}), Page).serve_forever()
"""
WSGI = """def application(environment, start):
    start("200 OK", [("Content-Length", "4")])
    return [b"page"]
"""
# Publishes and receives messages of 100 bytes: PORT SECONDS.
MQTT = """import socket, sys, threading, time

end, times = time.monotonic() + float(sys.argv[2]), []

def packet(kind, body):
    return bytes([kind, len(body)]) + body

def text(words):
    return len(words).to_bytes(2, "big") + words

def client(number):
    name = b"t%d" % number
    server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    server.sendall(packet(0x10, text(b"MQTT") + b"\\4\\2\\0\\x3c" + text(name)))
    server.recv(4)
    server.sendall(packet(0x82, b"\\0\\1" + text(name) + b"\\0"))
    server.recv(5)
    message = packet(0x30, text(name) + b"x" * 100)
    while (begin := time.monotonic()) < end:
        server.sendall(message * 8)
        left = len(message) * 8
        while left:
            left -= len(server.recv(left))
        times.append(1e6 * (time.monotonic() - begin))

clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
for one in clients:
    one.start()
for one in clients:
    one.join()
print(8 * len(times), "messages")
times.sort()
print("tails", 8 * len(times), times[len(times) * 99 // 100], times[len(times) * 999 // 1000])
"""
# The files that a server needs, the commands before its first start, its own command, and its load
# with an expression for the number of requests.
SERVERS = {
    "nginx": ({"c": NGINX}, [], ["nginx", "-c", "{dir}/c", "-e", "{dir}/errors"], HTTP,
              HTTP_REQUESTS),
    "apache": ({"c": APACHE}, [], ["apache2", "-f", "{dir}/c", "-DFOREGROUND"],
               [*HTTP[:-1], HTTP[-1] + "index.html"], HTTP_REQUESTS),
    "lighttpd": ({"c": LIGHTTPD}, [], ["lighttpd", "-D", "-f", "{dir}/c"], HTTP, HTTP_REQUESTS),
    "haproxy": ({"c": HAPROXY}, [], ["haproxy", "-db", "-f", "{dir}/c"], HTTP, HTTP_REQUESTS),
    "varnish": ({"c": VARNISH}, [], ["varnishd", "-F", "-a", "127.0.0.1:{port}", "-f", "{dir}/c",
                                     "-n", "{dir}/n", "-j", "none"], HTTP, HTTP_REQUESTS),
    "node": ({"c.js": NODE}, [], ["node", "{dir}/c.js"], HTTP, HTTP_REQUESTS),
    "go": ({"main.go": GO}, [["go", "build", "-o", "{dir}/main", "{dir}/main.go"]],
           ["{dir}/main"], HTTP, HTTP_REQUESTS),
    "java": ({"Main.java": JAVA}, [["javac", "-d", "{dir}", "{dir}/Main.java"]],
             ["java", "-Dsun.net.httpserver.nodelay=true", "-cp", "{dir}", "Main"], HTTP,
              HTTP_REQUESTS),
    "python": ({"c.py": PYTHON}, [], ["python3", "{dir}/c.py"], HTTP, HTTP_REQUESTS),
    "gunicorn": ({"app.py": WSGI}, [], ["gunicorn", "--chdir", "{dir}", "-b", "127.0.0.1:{port}",
                                        "-k", "gthread", "--threads", "4", "--workers", "2",
                                        "app:application"], HTTP, HTTP_REQUESTS),
    "redis": ({}, [], ["redis-server", "--port", "{port}", "--bind", "127.0.0.1", "--save", "",
                       "--dir", "{dir}"],
              ["sh", "-c", "timeout {seconds} redis-benchmark -p {port} -t get -n 100000000 -q >"
               "/dev/null; redis-cli -p {port} info stats"], r"total_commands_processed:(\d+)"),
    "memcached": ({}, [], ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", "{port}", "-t",
                           "4", "-U", "0"],
                  ["python3", HERE / "memcached.py", "{port}", "8", "{seconds}"],
                  r"(\d+) operations"),
    "mosquitto": ({"c": MOSQUITTO, "load.py": MQTT}, [], ["mosquitto", "-c", "{dir}/c"],
                  ["python3", "{dir}/load.py", "{port}", "{seconds}"], r"(\d+) messages"),
    "unbound": ({"c": UNBOUND, "names": "a.test A\n"}, [], ["unbound", "-c", "{dir}/c"],
                ["dnsperf", "-s", "127.0.0.1", "-p", "{port}", "-d", "{dir}/names", "-l",
                 "{seconds}", "-c", "8"], r"Queries completed: +(\d+)"),
    "mariadb": ({}, [["mariadb-install-db", "--no-defaults", "--datadir={dir}/data", "--user=mysql",
                      "--auth-root-authentication-method=normal"]],
                ["mariadbd", "--no-defaults", "--datadir={dir}/data", "--user=mysql",
                 "--socket={dir}/s", "--port={port}", "--bind-address=127.0.0.1"],
                ["sysbench", "oltp_read_only", "--mysql-socket={dir}/s", "--mysql-user=root",
                 "--mysql-db=test", "--threads=8", "--time={seconds}", "--tables=2",
                 "--table-size=10000", "run"], r"transactions: +(\d+)"),
    "postgresql": ({}, [[*NOBODY, "initdb", "-D", "{dir}/data", "--no-sync", "-U", "nobody"]],
                   [*NOBODY, "postgres", "-D", "{dir}/data", "-k", "{dir}", "-p", "{port}"],
                   ["pgbench", "-h", "127.0.0.1", "-p", "{port}", "-U", "nobody", "-c", "8", "-S",
                    "-T", "{seconds}", "postgres"], r"actually processed: (\d+)"),
}
# What fills a database once its server runs for the first time.
FILLS = {
    "mariadb": ["sh", "-c", "mysql --no-defaults -S {dir}/s -u root -e 'create database if not "
                "exists test' && sysbench oltp_read_only --mysql-socket={dir}/s --mysql-user=root "
                "--mysql-db=test --tables=2 --table-size=10000 prepare"],
    "postgresql": ["pgbench", "-h", "127.0.0.1", "-p", "{port}", "-U", "nobody", "-i", "-q",
                   "postgres"],
}
ENDS = {"postgresql": signal.SIGINT}


def cpu_times():
    """Returns the parent and the CPU time in seconds of each process, by its number."""
    ticks, times = os.sysconf("SC_CLK_TCK"), {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        times[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / ticks
    return times


def tree_s(times, root):
    """Returns the CPU time of a process and of its descendants, in seconds."""
    children = {}
    for pid, (parent, _) in times.items():
        children.setdefault(parent, []).append(pid)
    left, total = [root], 0
    while left:
        pid = left.pop()
        total += times.get(pid, (0, 0))[1]
        left += children.get(pid, [])
    return total


class Server:
    """A server with its directory and load."""

    def __init__(self, name, convoy, directory, seconds, first):
        self.name, self.convoy, self.seconds, self.first = name, convoy, seconds, first
        self.files, self.before, self.command, self.load, self.requests = SERVERS[name]
        self.directory = directory / name
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def filled(self, words):
        keys = {"dir": self.directory, "port": self.port, "seconds": self.seconds,
                "convoy": self.convoy}
        return [str(word).format(**keys) for word in words]

    def is_installed(self):
        words = [words for words in [*self.before, self.load] if words[0] != "sh"]
        needed = [words[0] for words in [*words, self.command]]
        needed += ["redis-benchmark"] * (self.name == "redis")
        needed += [word for word in self.command if word == "postgres"]
        return all(shutil.which(word) for word in needed if "{" not in str(word))

    def prepare(self):
        self.directory.mkdir()
        self.directory.chmod(0o777)
        for file, text in {"index.html": "page\n", **self.files}.items():
            (self.directory / file).write_text(self.filled([text])[0])
        for words in self.before:
            subprocess.run(self.filled(words), check=True, cwd=self.directory,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if self.name in FILLS:
            server = self.start([])
            subprocess.run(self.filled(FILLS[self.name]), check=True, stdout=subprocess.DEVNULL)
            self.end(server)

    def start(self, mode):
        with open(self.directory / "output", "w") as output:
            server = subprocess.Popen(self.filled([*self.first, *mode, *self.command]), cwd=self.directory,
                                      stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        # Caches of the server, and of the names of its threads.
        time.sleep(1)
        return server

    def end(self, server):
        children = [pid for pid, (parent, _) in cpu_times().items() if parent == server.pid]
        target = children[0] if "record" in server.args else server.pid
        os.kill(target, ENDS.get(self.name, signal.SIGTERM))
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def run(self, mode):
        """Returns the rate, the CPU time of a request, and the CPUs that the recorder uses."""
        server = self.start(MODES[mode])
        watcher = None
        if mode == "top":
            words = [self.convoy, "top", "--pid", str(server.pid), "--serve", "127.0.0.1:0"]
            watcher = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(1)
        recorder = watcher.pid if watcher else server.pid if MODES[mode] else None

        def used():
            times = cpu_times()
            own = times.get(recorder, (0, 0))[1]
            return tree_s(times, server.pid) - (0 if watcher else own), own

        before, begin = used(), time.monotonic()
        done = subprocess.run(self.filled([*self.first, *self.load]), capture_output=True, text=True, check=False)
        seconds, after = time.monotonic() - begin, used()
        if watcher:
            watcher.terminate()
            watcher.wait()
        self.end(server)
        found = re.search(self.requests, done.stdout + done.stderr)
        if not found or float(found[1]) <= 0:
            raise RuntimeError(f"{self.name}, {mode}: no requests: {done.stdout}{done.stderr}")
        requests = float(found[1]) * (self.seconds if self.name == "memcached" else 1)
        return requests / seconds, (after[0] - before[0]) / requests, (after[1] - before[1]) / seconds


def measured(server, modes, pairs):
    """Returns the ratios to the plain run by mode, the plain CPU time of a request, and the CPUs of
    the recorder by mode."""
    ratios = {mode: {"rate": [], "cpu": []} for mode in modes}
    plain, own = [], {mode: [] for mode in modes}
    for _ in range(pairs):
        runs = {mode: server.run(mode) for mode in random.sample(["plain", *modes], len(modes) + 1)}
        plain.append(runs["plain"][1])
        for mode in modes:
            ratios[mode]["rate"].append(runs[mode][0] / runs["plain"][0])
            ratios[mode]["cpu"].append(runs[mode][1] / runs["plain"][1])
            own[mode].append(runs[mode][2])
    return ratios, statistics.median(plain), {mode: statistics.median(own[mode]) for mode in modes}


def percent(ratios):
    """Returns the median change and its range."""
    low, middle, high = [100 * (ratio - 1) for ratio in
                         (min(ratios), statistics.median(ratios), max(ratios))]
    return f"{middle:+.0f} % ({low:+.0f} to {high:+.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("convoy")
    parser.add_argument("--only", default="")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--modes", default="off,default,contended,top")
    parser.add_argument("--before", default="")
    parser.add_argument("--write")
    arguments = parser.parse_args()
    os.environ["CONVOY_STORE"] = "none"
    convoy = pathlib.Path(arguments.convoy).resolve()
    only, modes = set(filter(None, arguments.only.split(","))), arguments.modes.split(",")
    lines = ["| server | CPU of a request | mode | throughput | CPU time | recorder |", "|---" * 6 + "|"]
    over = set()
    with tempfile.TemporaryDirectory() as place:
        pathlib.Path(place).chmod(0o755)
        for name in SERVERS:
            server = Server(name, convoy, pathlib.Path(place), arguments.seconds,
                            arguments.before.split())
            if only and name not in only or not server.is_installed():
                continue
            server.prepare()
            ratios, plain, own = measured(server, modes, arguments.pairs)
            for mode in modes:
                lines.append(f"| {name} | {1e6 * plain:.1f} us | {mode} | "
                             f"{percent(ratios[mode]['rate'])} | {percent(ratios[mode]['cpu'])} | "
                             f"{own[mode]:.2f} |")
                print(lines[-1], flush=True)
            median = {key: statistics.median(of) for key, of in ratios.get("default", {}).items()}
            if median and (median["rate"] < BUDGET["rate"] or median["cpu"] > BUDGET["cpu"]):
                over.add(name)
    if len(lines) == 2:
        return 2
    print("over the budget:", ", ".join(sorted(over)) or "none")
    if arguments.write:
        generated.replace(arguments.write, "tests/servers/cost.py", ["CONVOY", *sys.argv[2:]], lines)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
