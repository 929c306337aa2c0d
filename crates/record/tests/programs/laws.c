// Threads whose throughput follows from arithmetic: laws MODE THREADS SECONDS. Each acquires a lock,
// works inside, releases it, works outside. Prints the sections per second.
//
//   private   a mutex of its own: N threads do min(N, CPUs) times the work of one
//   shared    one mutex for half of the work: at most twice the work of one
//   readers   one lock that all read: as private
//   sleeps    a mutex of its own, 1 ms of sleep: CPUs do not matter
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64 };

static struct { pthread_mutex_t lock; long sections; char apart[128]; } own[MOST];
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static volatile int over;
static const char *mode;

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double loops_per_us = 1000;

static void work(double us)
{
    for (volatile uint64_t left = us * loops_per_us; left; left--)
        ;
}

static void nap(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, 0);
}

static void *run(void *argument)
{
    long index = (long)argument;
    pthread_mutex_t *lock = strcmp(mode, "shared") ? &own[index].lock : &one;
    while (!over) {
        if (!strcmp(mode, "readers")) {
            pthread_rwlock_rdlock(&shelf);
            work(20);
            pthread_rwlock_unlock(&shelf);
            work(5);
        } else {
            pthread_mutex_lock(lock);
            work(5);
            pthread_mutex_unlock(lock);
            if (!strcmp(mode, "sleeps"))
                nap(1000000);
            else
                work(5);
        }
        own[index].sections++;
    }
    return 0;
}

int main(int count, char **words)
{
    if (count < 4)
        return 2;
    mode = words[1];
    int threads = atoi(words[2]);
    double least = 1;
    for (int look = 0; look < 20; look++) {
        double begin = now(CLOCK_THREAD_CPUTIME_ID);
        work(200);
        double took = now(CLOCK_THREAD_CPUTIME_ID) - begin;
        least = took < least ? took : least;
    }
    loops_per_us *= 200e-6 / least;
    pthread_t all[MOST];
    double begin = now(CLOCK_MONOTONIC);
    for (long index = 0; index < threads; index++) {
        pthread_mutex_init(&own[index].lock, 0);
        pthread_create(&all[index], 0, run, (void *)index);
    }
    while (now(CLOCK_MONOTONIC) - begin < atof(words[3]))
        nap(10000000);
    over = 1;
    long sections = 0;
    for (int index = 0; index < threads; index++) {
        pthread_join(all[index], 0);
        sections += own[index].sections;
    }
    printf("%.0f\n", sections / (now(CLOCK_MONOTONIC) - begin));
    return 0;
}
