/* Threads that take a lock over and over: what it is, how many threads, for how many milliseconds.
   Prints how often they took it in a second.
     turn   one unit of a semaphore, short sections and short work between them
     hot    one mutex, sections of some 2 us and as much work between them
     rare   64 mutexes, one drawn each time, and work a hundred times as long as a section
   or wait for each other:
     buffer half of them fill a buffer of 16 places, the others empty it and work four times as long
     group  one of those that have come does the work of all, and tells them and the next one
     nested half of them take one mutex within another, the others the inner one alone */
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

static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int in_buffer;

static void buffer(long own) {
    int fills = own % 2 == 0;
    work(fills ? 1000 : 4000);
    pthread_mutex_lock(&hot);
    while (in_buffer == (fills ? 16 : 0) && !atomic_load(&over))
        pthread_cond_wait(fills ? &emptied : &filled, &hot);
    in_buffer += fills ? 1 : -1;
    pthread_cond_signal(fills ? &filled : &emptied);
    pthread_mutex_unlock(&hot);
}

static struct member {
    pthread_cond_t told;
    int done, leads;
} *members;
static long *pending;
static int count_pending, is_led;

static void group(long own) {
    long mine[256];
    struct member *me = &members[own];
    work(500);
    pthread_mutex_lock(&hot);
    me->done = me->leads = 0;
    if (is_led) {
        pending[count_pending++] = own;
        while (!me->done && !me->leads)
            pthread_cond_wait(&me->told, &hot);
    }
    if (!me->done) {
        is_led = 1;
        int count = 0;
        while (count_pending > 0 && count < 256)
            mine[count++] = pending[--count_pending];
        pthread_mutex_unlock(&hot);
        work(10000 + 1000 * count);
        pthread_mutex_lock(&hot);
        for (int i = 0; i < count; i++) {
            members[mine[i]].done = 1;
            if (mine[i] != own)
                pthread_cond_signal(&members[mine[i]].told);
        }
        is_led = count_pending > 0;
        if (is_led) {
            struct member *next = &members[pending[--count_pending]];
            next->leads = 1;
            pthread_cond_signal(&next->told);
        }
    }
    pthread_mutex_unlock(&hot);
}

static void nested(long own) {
    if (own % 2 == 0) {
        pthread_mutex_lock(&outer);
        work(1000);
        pthread_mutex_lock(&inner);
        work(1000);
        pthread_mutex_unlock(&inner);
        pthread_mutex_unlock(&outer);
        work(2000);
    } else {
        pthread_mutex_lock(&inner);
        work(500);
        pthread_mutex_unlock(&inner);
        work(8000);
    }
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
        } else if (kind == 'b') {
            buffer(own);
        } else if (kind == 'g') {
            group(own);
        } else if (kind == 'n') {
            nested(own);
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
    members = calloc(threads, sizeof *members);
    pending = calloc(threads, sizeof *pending);
    for (long i = 0; i < threads; i++)
        pthread_cond_init(&members[i].told, 0);
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
    // Nobody waits for those that have left.
    for (int i = 0; i < 100 && kind == 'b'; i++) {
        pthread_cond_broadcast(&filled);
        pthread_cond_broadcast(&emptied);
        usleep(100);
    }
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], 0);
    printf("%.0f\n", taken / (end - begin));
    return 0;
}
