"""Programs with one known use of locks in each mode. The second argument is how long to run, seconds."""
import asyncio
import concurrent.futures
import http.server
import os
import queue
import select
import signal
import socket
import sys
import threading
import time

mode, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
lock = threading.Lock()
units = threading.BoundedSemaphore(2)
tasks = queue.Queue()


def compute(steps):
    x = 1
    for _ in range(steps):
        x = (x * 6364136223846793005 + 1) & 0xFFFFFFFFFFFFFFFF
    return x


def post():
    with lock:
        time.sleep(0.002)


def query():
    with units:
        time.sleep(0.005)


def serve():
    try:
        tasks.get(timeout=0.1)
    except queue.Empty:
        pass


def feed():
    tasks.put(1)
    time.sleep(0.005)


def poll():
    try:
        queue.SimpleQueue().get(timeout=0.1)
    except queue.Empty:
        pass


def start(count, work):
    def repeat():
        while time.monotonic() < end:
            work()

    for _ in range(count):
        threading.Thread(target=repeat).start()


async def tick():
    held = asyncio.Lock()

    async def task():
        while time.monotonic() < end:
            async with held:
                await asyncio.sleep(0.002)

    await asyncio.gather(*(task() for _ in range(8)))


async def serve_tasks():
    async def answer(_reader, writer):
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0):
        await asyncio.sleep(end - time.monotonic())


def fork_workers(count):
    """Starts processes that wait for connections at one socket, as servers with workers do."""
    listener = socket.create_server(("127.0.0.1", 0))
    workers = []
    for _ in range(count):
        workers.append(os.fork())
        if workers[-1] == 0:
            while True:
                select.select([listener], [], [], 0.05)
    while time.monotonic() < end:
        select.select([], [], [], 0.1)
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
        os.waitpid(worker, 0)


match mode:
    case "gil":
        start(3, lambda: compute(1000))
    case "asleep":
        start(4, post)
    case "semaphore":
        start(8, query)
    case "idle":
        start(4, serve)
        start(1, feed)
    case "poll":
        start(1, poll)
    case "tasks":
        asyncio.run(tick())
    case "short-lived":
        while time.monotonic() < end:
            threads = [threading.Thread(target=time.sleep, args=(0.005,)) for _ in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
    case "ring":
        turns = [threading.Semaphore(number == 0) for number in range(4)]

        def turn(number):
            while time.monotonic() < end:
                if turns[number].acquire(timeout=0.1):
                    turns[(number + 1) % 4].release()

        for number in range(4):
            threading.Thread(target=turn, args=(number,)).start()
    case "server":
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        time.sleep(end - time.monotonic())
    case "executor":
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            while time.monotonic() < end:
                pool.submit(compute, 1000)
                time.sleep(0.005)
    case "few-workers":
        executor = concurrent.futures.ThreadPoolExecutor(2)
        start(8, lambda: executor.submit(time.sleep, 0.005).result())
        time.sleep(end - time.monotonic() + 0.02)
    case "loop":
        asyncio.run(serve_tasks())
    case "prefork":
        fork_workers(4)
