"""Loads memcached: PORT CONNECTIONS SECONDS. Each connection sends sets and gets in batches."""
import multiprocessing
import socket
import sys
import time


def load(port, end, done):
    with socket.create_connection(("127.0.0.1", port)) as server:
        value, count = b"x" * 100, 0
        batch = b"".join(
            b"set key%d 0 0 100\r\n%s\r\nget key%d\r\n" % (key, value, key) for key in range(64)
        )
        while time.monotonic() < end:
            server.sendall(batch)
            answer = b""
            while answer.count(b"STORED\r\n") + answer.count(b"END\r\n") < 128:
                text = server.recv(65536)
                if not text:
                    return
                answer += text
            count += 128
        done.put(count)


def main():
    port, connections, seconds = (int(word) for word in sys.argv[1:])
    end, done = time.monotonic() + seconds, multiprocessing.Queue()
    all_ = [
        multiprocessing.Process(target=load, args=(port, end, done)) for _ in range(connections)
    ]
    for one in all_:
        one.start()
    for one in all_:
        one.join(seconds + 5)
        one.terminate()
    count = 0
    while not done.empty():
        count += done.get()
    print(f"  {count / seconds:.0f} operations a second")


main()
