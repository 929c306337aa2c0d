/* Threads that take a lock over and over: what it is, how many threads, for how many milliseconds.
   Prints how often they took it in a second.
     turn   one unit of a semaphore, short sections and short work between them
     hot    one mutex, sections of some 2 us and as much work between them
     rare   64 mutexes, one drawn each time, and work a hundred times as long as a section */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct count {
    _Alignas(64) atomic_long taken;
};

static pthread_barrier_t start;
static sem_t turn;
static pthread_mutex_t hot = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t rare[64];
static struct count *counts;
static atomic_int over;
static char kind;

static void work(int steps) {
    for (volatile int i = 0; i < steps; i++)
        ;
}

static void *body(void *number) {
    long own = (long)number;
    unsigned random = 12345 + own;
    pthread_barrier_wait(&start);
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        if (kind == 't') {
            sem_wait(&turn);
            work(50);
            sem_post(&turn);
            work(100);
        } else if (kind == 'h') {
            pthread_mutex_lock(&hot);
            work(1000);
            pthread_mutex_unlock(&hot);
            work(1000);
        } else {
            random = random * 1103515245 + 12345;
            pthread_mutex_t *one = &rare[random >> 16 & 63];
            pthread_mutex_lock(one);
            work(50);
            pthread_mutex_unlock(one);
            work(5000);
        }
        atomic_fetch_add_explicit(&counts[own].taken, 1, memory_order_relaxed);
    }
    return 0;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int words, char **word) {
    if (words != 4)
        return 2;
    kind = word[1][0];
    long threads = atol(word[2]), taken = 0;
    pthread_t *all = calloc(threads, sizeof *all);
    counts = aligned_alloc(64, threads * sizeof *counts);
    memset(counts, 0, threads * sizeof *counts);
    sem_init(&turn, 0, 1);
    for (int i = 0; i < 64; i++)
        pthread_mutex_init(&rare[i], 0);
    pthread_barrier_init(&start, 0, threads + 1);
    for (long i = 0; i < threads; i++)
        pthread_create(&all[i], 0, body, (void *)i);
    pthread_barrier_wait(&start);
    double begin = seconds();
    usleep(1000 * atol(word[3]));
    for (long i = 0; i < threads; i++)
        taken += counts[i].taken;
    double end = seconds();
    over = 1;
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], 0);
    printf("%.0f\n", taken / (end - begin));
    return 0;
}
