# A service with eight threads. Each request fetches a token from another machine (here: it sleeps)
# while it holds the lock of the session.
import threading
import time

session = threading.Lock()


def fetch_token():
    time.sleep(0.002)


def handle(requests):
    for _ in range(requests):
        with session:
            fetch_token()


threads = [threading.Thread(target=handle, args=(100,)) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("800 requests")
