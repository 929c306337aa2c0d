/* Threads that do nothing but take turns at a mutex, for a second: how many got none. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static int stop;
static long inside;

static void work(void) {
    for (volatile int i = 0; i < 500; i++)
        ;
}

static void *take(void *count) {
    pthread_barrier_wait(&start);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&mutex);
        inside++;
        work();
        pthread_mutex_unlock(&mutex);
        ++*(long *)count;
        work();
    }
    return 0;
}

int main(int words, char **word) {
    int threads = words > 1 ? atoi(word[1]) : 200;
    pthread_t *thread = calloc(threads, sizeof *thread);
    long *count = calloc(threads, sizeof *count), sum = 0, none = 0;
    struct timespec second = {.tv_sec = 1};
    pthread_barrier_init(&start, 0, threads + 1);
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], 0, take, &count[i]);
    pthread_barrier_wait(&start);
    nanosleep(&second, 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    /* Who comes in only now has had nothing in that second but the section it waited for. */
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], 0);
        sum += count[i];
        none += count[i] < 2;
    }
    printf("%ld starved, %s\n", none, sum == inside ? "one at a time" : "together");
    return 0;
}
