// Small servers: each thread makes passes until the time is up.
// usage: programs MODE THREADS SECONDS; prints the passes per second.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_bool over;
static atomic_long passes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t downloads;
static struct {
    pthread_mutex_t lock;
    long value;
} stripes[16];
static long table[4096];
static int file;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void rest_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void work(long turns) {
    for (volatile long turn = 0; turn < turns; turn++)
        ;
}

// Two connections; a query takes 5 ms.
static void pool(unsigned *seed) {
    static int used;
    pthread_mutex_lock(&lock);
    while (used == 2)
        pthread_cond_wait(&returned, &lock);
    used++;
    pthread_mutex_unlock(&lock);
    rest_us(5000);
    pthread_mutex_lock(&lock);
    used--;
    pthread_cond_signal(&returned);
    pthread_mutex_unlock(&lock);
    rest_us(500 + rand_r(seed) % 1000);
}

// Four downloads of 4 ms at a time.
static void units(unsigned *seed) {
    sem_wait(&downloads);
    rest_us(4000);
    sem_post(&downloads);
    rest_us(1000 + rand_r(seed) % 1000);
}

// A commit sleeps for 1 ms under the lock of the journal.
static void journal(unsigned *seed) {
    rest_us(2000 + rand_r(seed) % 2000);
    pthread_mutex_lock(&lock);
    rest_us(1000);
    pthread_mutex_unlock(&lock);
}

static void striped(unsigned *seed) {
    rest_us(1000);
    int number = rand_r(seed) % 16;
    pthread_mutex_lock(&stripes[number].lock);
    work(5000);
    stripes[number].value++;
    pthread_mutex_unlock(&stripes[number].lock);
}

// A table that another thread rewrites every 35 ms, for 5 ms.
static void reader(unsigned *seed) {
    rest_us(800);
    pthread_rwlock_rdlock(&table_lock);
    long sum = table[rand_r(seed) % 4096];
    work(2000 + sum % 2);
    pthread_rwlock_unlock(&table_lock);
}

static void *writer(void *none) {
    while (!over) {
        rest_us(35000);
        pthread_rwlock_wrlock(&table_lock);
        double end = now_s() + 0.005;
        while (now_s() < end)
            table[0]++;
        pthread_rwlock_unlock(&table_lock);
    }
    return none;
}

// Lines of a log, written under a lock.
static void logged(unsigned *seed) {
    char line[200];
    rest_us(1500);
    work(10000);
    int length = snprintf(line, sizeof line, "%150d request\n", rand_r(seed));
    pthread_mutex_lock(&lock);
    length = write(file, line, length);
    pthread_mutex_unlock(&lock);
    passes += length < 0;
}

// One hot mutex and one of each thread; no sleep.
static void hot(unsigned *seed) {
    static _Thread_local pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    table[0]++;
    work(100);
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&mine);
    work(400 + rand_r(seed) % 8);
    pthread_mutex_unlock(&mine);
}

static const struct {
    const char *name;
    void (*pass)(unsigned *);
} modes[] = {{"pool", pool},      {"units", units},   {"journal", journal}, {"striped", striped},
             {"reader", reader},  {"logged", logged}, {"hot", hot}};

static void *run(void *number) {
    unsigned seed = (unsigned)(long)number & 0xffff;
    void (*pass)(unsigned *) = modes[(long)number >> 16].pass;
    long count = 0;
    for (; !over; count++)
        pass(&seed);
    passes += count;
    return NULL;
}

int main(int argc, char **argv) {
    long mode = 0, threads = atoi(argv[2]);
    while (strcmp(modes[mode].name, argv[1]))
        mode++;
    sem_init(&downloads, 0, 4);
    for (int number = 0; number < 16; number++)
        pthread_mutex_init(&stripes[number].lock, NULL);
    file = open("/tmp", O_TMPFILE | O_WRONLY | O_APPEND, 0600);
    pthread_t workers[256], other;
    if (modes[mode].pass == reader)
        pthread_create(&other, NULL, writer, NULL);
    double begin = now_s();
    for (long number = 0; number < threads; number++)
        pthread_create(&workers[number], NULL, run, (void *)(mode << 16 | (number + 1)));
    rest_us(1e6 * atof(argv[3]));
    over = 1;
    for (long number = 0; number < threads; number++)
        pthread_join(workers[number], NULL);
    printf("%f\n", passes / (now_s() - begin));
    return argc > 4;
}
