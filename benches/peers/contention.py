"""The lock-contention model on SimPy: a FIFO resource and one process for each task.

contention.py TASKS ACQUISITIONS prints acquisitions per second of the host's CPU.
"""

import random
import sys
import time

import simpy

HOLD = 100


def task(env, lock, tasks, random, count):
    while True:
        with lock.request() as request:
            yield request
            count[0] += 1
            yield env.timeout(HOLD)
        yield env.timeout(random.uniform(0.5, 1.5) * tasks / 10)


def main():
    tasks, acquisitions = int(sys.argv[1]), int(sys.argv[2])
    env = simpy.Environment()
    lock = simpy.Resource(env, capacity=1)
    count = [0]
    for number in range(tasks):
        env.process(task(env, lock, tasks, random.Random(number), count))
    begin = time.process_time()
    env.run(until=acquisitions * HOLD)
    print(f"{count[0] / (time.process_time() - begin):.0f}")


main()
