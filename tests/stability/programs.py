"""Programs with one known use of locks in each mode. The second argument is how long to run, seconds."""
import asyncio
import queue
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
