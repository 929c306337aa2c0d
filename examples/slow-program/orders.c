/* A small server with a planted lock convoy: docs/tutorial.md finds and removes it.

   Twelve threads work off 1200 orders. Each order is priced, which takes some CPU time, and noted
   in a journal, which is written to disk: half a millisecond, played by a sleep. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define THREADS 12
#define ORDERS 100 /* of each thread */
#ifndef JOURNALS
#define JOURNALS 1
#endif

struct journal {
    pthread_mutex_t lock;
    long written;
};

static struct journal journals[JOURNALS];

static unsigned long price(unsigned long order) {
    for (int i = 0; i < 5000; i++)
        order = order * 6364136223846793005 + 1442695040888963407;
    return order;
}

static void write_to_disk(struct journal *journal) {
    struct timespec half_a_millisecond = {.tv_nsec = 500000};
    nanosleep(&half_a_millisecond, 0);
    journal->written++;
}

static void note(unsigned long price) {
    struct journal *journal = &journals[(price >> 33) % JOURNALS];
    pthread_mutex_lock(&journal->lock);
    write_to_disk(journal);
    pthread_mutex_unlock(&journal->lock);
}

static void *work(void *first) {
    for (long order = 0; order < ORDERS; order++)
        note(price((long)first + order));
    return 0;
}

int main(void) {
    pthread_t threads[THREADS];
    long written = 0;
    for (int i = 0; i < JOURNALS; i++)
        pthread_mutex_init(&journals[i].lock, 0);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)(i * ORDERS));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    for (int i = 0; i < JOURNALS; i++)
        written += journals[i].written;
    printf("%ld orders\n", written);
    return 0;
}
