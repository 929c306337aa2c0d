"""Small servers: each thread makes passes until the time is up.

usage: programs.py MODE THREADS SECONDS; prints the passes per second.
"""
import queue
import sys
import threading
import time

mode, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
connections = queue.Queue()
for number in range(2):
    connections.put(number)
lock = threading.Lock()
lines = []
end = [False]
passes = []


def query():
    """Two connections; a query takes 5 ms."""
    connection = connections.get()
    time.sleep(0.005)
    connections.put(connection)


def logged():
    """Lines are formatted under a lock, and a request waits for 2 ms."""
    time.sleep(0.002)
    with lock:
        lines.append(f"{len(lines)} {time.time()} request")
        if len(lines) > 1000:
            lines.clear()


def run():
    """Makes passes."""
    count = 0
    while not end[0]:
        {"query": query, "logged": logged}[mode]()
        count += 1
    passes.append(count)


begin = time.monotonic()
workers = [threading.Thread(target=run) for _ in range(threads)]
for worker in workers:
    worker.start()
time.sleep(seconds)
end[0] = True
for worker in workers:
    worker.join()
print(sum(passes) / (time.monotonic() - begin))
