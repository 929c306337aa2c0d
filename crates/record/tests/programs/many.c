/* How many mutexes, taken in turn at two places, and how many rounds; then another thread waits for
   the last one, which has been taken like all others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t *mutexes;
static int count;

static void first(int at) {
    pthread_mutex_lock(&mutexes[at]);
    pthread_mutex_unlock(&mutexes[at]);
    asm volatile("");
}

static void second(int at) {
    pthread_mutex_lock(&mutexes[at]);
    pthread_mutex_unlock(&mutexes[at]);
    asm volatile("" ::: "memory");
}

static void *hold_last(void *unused) {
    pthread_mutex_lock(&mutexes[count - 1]);
    pthread_barrier_wait((pthread_barrier_t *)unused);
    usleep(50000);
    pthread_mutex_unlock(&mutexes[count - 1]);
    return unused;
}

int main(int words, char **word) {
    if (words < 3)
        return 1;
    count = atoi(word[1]);
    mutexes = calloc(count, sizeof *mutexes);
    for (int round = 0; round < atoi(word[2]); round++)
        for (int at = 0; at < count; at++) {
            first(at);
            second(at);
        }
    pthread_barrier_t held;
    pthread_barrier_init(&held, 0, 2);
    pthread_t thread;
    pthread_create(&thread, 0, hold_last, &held);
    pthread_barrier_wait(&held);
    pthread_mutex_lock(&mutexes[count - 1]);
    pthread_mutex_unlock(&mutexes[count - 1]);
    pthread_join(thread, 0);
    puts("done");
    return 0;
}
