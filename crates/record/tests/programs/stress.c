/* Threads that take mutexes in every way at once, and a handler that takes one, too: whether two
   were ever inside together, or a call gave what it may not. Threads, milliseconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUTEXES 8

static pthread_mutex_t mutex[MUTEXES], handlers = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int inside[MUTEXES];
static long wrong, tokens, handled;
static int stop;

static void handle(int signal) {
    (void)signal;
    pthread_mutex_lock(&handlers);
    handled++;
    pthread_mutex_unlock(&handlers);
}

static void section(int at) {
    if (__atomic_fetch_add(&inside[at], 1, __ATOMIC_SEQ_CST) != 0)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
    for (volatile int i = 0; i < 200; i++)
        ;
    __atomic_fetch_sub(&inside[at], 1, __ATOMIC_SEQ_CST);
}

static struct timespec soon(clockid_t clock, long ns) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ns;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

/* Whether the mutex was taken. */
static int taken(int result, int failure) {
    if (result != 0 && result != failure)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
    return result == 0;
}

static void pass_tokens(int give) {
    pthread_mutex_lock(&mutex[0]);
    section(0);
    if (give) {
        tokens++;
        pthread_cond_signal(&condition);
    } else if (tokens > 0) {
        tokens--;
    } else {
        struct timespec end = soon(CLOCK_REALTIME, 200000);
        pthread_cond_timedwait(&condition, &mutex[0], &end);
        section(0);
    }
    pthread_mutex_unlock(&mutex[0]);
}

static void *take(void *seed) {
    unsigned random = (unsigned)(long)seed;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        random = random * 1103515245 + 12345;
        int at = (random >> 16) % MUTEXES, is_taken;
        long ns = (random >> 4) % 300000;
        struct timespec end;
        switch ((random >> 8) % 5) {
        case 0:
            is_taken = taken(pthread_mutex_lock(&mutex[at]), 0);
            break;
        case 1:
            is_taken = taken(pthread_mutex_trylock(&mutex[at]), EBUSY);
            break;
        case 2:
            end = soon(CLOCK_REALTIME, ns);
            is_taken = taken(pthread_mutex_timedlock(&mutex[at], &end), ETIMEDOUT);
            break;
        case 3:
            end = soon(CLOCK_MONOTONIC, ns);
            is_taken = taken(pthread_mutex_clocklock(&mutex[at], CLOCK_MONOTONIC, &end), ETIMEDOUT);
            break;
        default:
            pass_tokens(random >> 20 & 1);
            continue;
        }
        if (is_taken) {
            section(at);
            pthread_mutex_unlock(&mutex[at]);
        }
    }
    return 0;
}

int main(int words, char **word) {
    int threads = words > 1 ? atoi(word[1]) : 16, ms = words > 2 ? atoi(word[2]) : 300;
    pthread_t *thread = calloc(threads, sizeof *thread);
    struct timespec millisecond = {.tv_nsec = 1000000};
    for (int i = 0; i < MUTEXES; i++)
        pthread_mutex_init(&mutex[i], 0);
    signal(SIGUSR1, handle);
    for (long i = 0; i < threads; i++)
        pthread_create(&thread[i], 0, take, (void *)(i * 7919 + 1));
    for (int i = 0; i < ms; i++) {
        nanosleep(&millisecond, 0);
        pthread_kill(thread[i % threads], SIGUSR1);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], 0);
    printf("%ld wrong, %s\n", wrong, handled > 0 ? "handled" : "no signal was handled");
    return 0;
}
