"""Loads memcached: PORT CONNECTIONS SECONDS. Each connection sends sets and gets in batches.

Prints operations a second, and operations and percentiles of a batch's latency in microseconds."""
import multiprocessing
import socket
import sys
import time


def load(port, end, done):
    with socket.create_connection(("127.0.0.1", port)) as server:
        value, times = b"x" * 100, []
        batch = b"".join(
            b"set key%d 0 0 100\r\n%s\r\nget key%d\r\n" % (key, value, key) for key in range(64)
        )
        while (begin := time.monotonic()) < end:
            server.sendall(batch)
            answer = b""
            while answer.count(b"STORED\r\n") + answer.count(b"END\r\n") < 128:
                text = server.recv(65536)
                if not text:
                    return
                answer += text
            times.append(1e6 * (time.monotonic() - begin))
        done.put(times)


def main():
    port, connections, seconds = (int(word) for word in sys.argv[1:])
    end, done = time.monotonic() + seconds, multiprocessing.Queue()
    all_ = [
        multiprocessing.Process(target=load, args=(port, end, done)) for _ in range(connections)
    ]
    for one in all_:
        one.start()
    times = sorted(time for _ in all_ for time in done.get(timeout=seconds + 5))
    for one in all_:
        one.join()
    count = 128 * len(times)
    print(f"  {count / seconds:.0f} operations a second")
    print(f"tails {count} {times[len(times) * 99 // 100]} {times[len(times) * 999 // 1000]}")


main()
