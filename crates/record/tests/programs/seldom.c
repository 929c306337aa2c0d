// Threads that wait for one mutex all the time, and once for 300 ms. Prints how often and for how
// many seconds they waited.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 6, TURNS = 20000 };
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t sums = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin;
static double seconds;
static long waits;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void *work(void *first) {
    double waited = 0;
    long count = 0;
    pthread_barrier_wait(&begin);
    for (int turn = 0; turn < TURNS; turn++) {
        // The word of a mutex is not 0 while it has an owner.
        if (*(volatile int *)&busy) {
            double from = now();
            pthread_mutex_lock(&busy);
            waited += now() - from;
            count++;
        } else {
            pthread_mutex_lock(&busy);
        }
        if (first && turn == TURNS / 2)
            nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        sched_yield();
        pthread_mutex_unlock(&busy);
    }
    pthread_mutex_lock(&sums);
    seconds += waited;
    waits += count;
    pthread_mutex_unlock(&sums);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&begin, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, i ? NULL : &begin);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld %f\n", waits, seconds);
}
