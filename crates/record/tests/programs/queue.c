/* Producers and consumers at one bounded queue: every item must arrive once. */
#include <pthread.h>
#include <stdio.h>

#ifndef ITEMS
#define ITEMS 5000
#define ROOM 8
#endif
enum { THREADS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int queue[ROOM], first, count;
static long sum;

static void *produce(void *number) {
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&mutex);
        while (count == ROOM)
            pthread_cond_wait(&emptied, &mutex);
        queue[(first + count++) % ROOM] = i + (int)(long)number * 994;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
    }
    return number;
}

static void *consume(void *unused) {
    for (int i = 0; i < ITEMS; i++) {
        pthread_mutex_lock(&mutex);
        while (count == 0)
            pthread_cond_wait(&filled, &mutex);
        sum += queue[first];
        first = (first + 1) % ROOM;
        count--;
        pthread_cond_signal(&emptied);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(void) {
    pthread_t threads[2 * THREADS];
    for (long i = 0; i < 2 * THREADS; i++)
        pthread_create(&threads[i], 0, i < THREADS ? produce : consume, (void *)i);
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_join(threads[i], 0);
    printf("sum %ld\n", sum);
    return 0;
}
