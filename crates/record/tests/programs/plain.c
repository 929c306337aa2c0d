/* Threads that take mutexes in turn, wait for them or try, and count without atomics: what a race
   detector needs to see whether a lock orders what it protects. Threads, turns, and anything else
   if they only wait. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MUTEXES = 4 };

static pthread_mutex_t mutex[MUTEXES];
static long count[MUTEXES], turns;
static int only_waits;

static void *take(void *number) {
    unsigned random = 12345 + (long)number;
    for (long i = 0; i < turns; i++) {
        random = random * 1103515245 + 12345;
        int at = random >> 16 & (MUTEXES - 1);
        struct timespec later;
        clock_gettime(CLOCK_REALTIME, &later);
        later.tv_sec += 60;
        switch (only_waits ? 3 : random >> 24 & 3) {
        case 0:
            while (pthread_mutex_trylock(&mutex[at]))
                ;
            break;
        case 1:
            while (pthread_mutex_timedlock(&mutex[at], &later))
                ;
            break;
        default:
            pthread_mutex_lock(&mutex[at]);
        }
        count[at]++;
        pthread_mutex_unlock(&mutex[at]);
    }
    return 0;
}

int main(int words, char **word) {
    long threads = words > 1 ? atol(word[1]) : 4, all = 0;
    turns = words > 2 ? atol(word[2]) : 5000;
    only_waits = words > 3;
    pthread_t *thread = calloc(threads, sizeof *thread);
    for (int i = 0; i < MUTEXES; i++)
        pthread_mutex_init(&mutex[i], 0);
    for (long i = 0; i < threads; i++)
        pthread_create(&thread[i], 0, take, (void *)i);
    for (long i = 0; i < threads; i++)
        pthread_join(thread[i], 0);
    for (int i = 0; i < MUTEXES; i++)
        all += count[i];
    printf("%s\n", all == threads * turns ? "all counted" : "lost");
    return 0;
}
