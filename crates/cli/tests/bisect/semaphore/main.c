/* Threads that want one semaphore all the time, for a short while: how often do they get it? */
#define _GNU_SOURCE
#include "sem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 3, MILLISECONDS = 30 };

static struct sem sem;
static atomic_int over;
static volatile long shared;

static void *work(void *arg)
{
    long *count = arg;

    while (!atomic_load(&over)) {
        sem_down(&sem);
        for (int i = 0; i < 50; i++)
            shared++;
        sem_up(&sem);
        ++*count;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    long counts[THREADS] = { 0 };
    long sum = 0;
    struct sched_param plain = { 0 };
    struct timespec pause = { .tv_nsec = 1000000L };
    struct timespec time = { .tv_nsec = MILLISECONDS * 1000000L };

    /* A thread that wakes another one keeps running; otherwise it would be outside the queue. */
    sched_setscheduler(0, SCHED_BATCH, &plain);
    /* All queue up behind the first owner before the clock runs. */
    sem_start(&sem);
    sem_down(&sem);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &counts[i]);
    while (sem_waiters(&sem) < THREADS)
        nanosleep(&pause, NULL);
    sem_up(&sem);
    nanosleep(&time, NULL);
    atomic_store(&over, 1);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += counts[i];
    }
    printf("acquired %ld times in %d ms\nrate: %.1f per ms\n", sum, MILLISECONDS,
           (double)sum / MILLISECONDS);
    return 0;
}
