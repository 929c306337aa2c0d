// Threads whose throughput follows from arithmetic: laws MODE THREADS SECONDS [SHARDS]. Prints the
// cycles per second. Of each cycle, times are microseconds of CPU time unless they say sleep.
//
//   private    5 in a mutex of its own, 5 outside: N threads do min(N, CPUs) times the work of one
//   shared     5 in one mutex, 5 outside: at most twice the work of one
//   saturated  50 in one mutex, 2 outside: one cycle for each critical section
//   readers    20 in a lock that all read, 5 outside: as private
//   writers1, writers10, writers50
//              20 in one reader/writer lock, 20 outside; so many of 100 cycles write
//   sleeps     5 in a mutex of its own, then 1000 of sleep: CPUs do not matter
//   repairman  exponential: 20000 of sleep, then 2000 in one mutex: mean value analysis
//   sequence   2000 outside, 200 in one mutex, 500 in another one
//   nested     1000 outside, 200 in one mutex, 300 more in another one within it
//   buffer     a quarter of the threads put an item for 1000, the others take one for 2000
//   barrier    1000, and 100 to 1000 more, drawn, 1 in a mutex of its own, then a barrier
//   stealing   2 in a mutex of its own or, once in 8 times, of another thread, 50 outside
//   striped    1 in one of 64 mutexes, drawn, 20 outside
//   mostly     20 in a lock that all read, 1 in one mutex, 30 outside
//   spinning   1 in one spinlock, 50 outside
//   pool       1000 of sleep with one of 4 units of a semaphore, 20 outside
//   pipeline   three stages of equal threads with two buffers: 500, 1000 and 500 for each item
//   asleep     1000 of sleep in one mutex, 20 outside: one cycle for each critical section
//   uneven     as private, but thread N works 5 times N + 1 outside
//   cache      a hash table with a list by time of use under a mutex, in SHARDS shards
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 64, ROOM = 8, UNITS = 4 };

static struct own {
    pthread_mutex_t lock;
    long cycles;
    uint64_t random;
    char apart[128];
} own[MOST];
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t line;
static sem_t units;
static volatile int over;
static int threads, shards = 1;

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double loops_per_us = 1000;

static void work(double us)
{
    for (volatile uint64_t left = us * loops_per_us; left; left--)
        ;
}

static void nap(double us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, 0);
}

static uint64_t draw(struct own *me)
{
    uint64_t seed = me->random += 0x9e3779b97f4a7c15;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
    return seed ^ seed >> 31;
}

static double exponential(struct own *me, double us)
{
    return -us * log((draw(me) >> 11) / 0x1p53 + 0x1p-54);
}

static void hold(pthread_mutex_t *lock, double us)
{
    pthread_mutex_lock(lock);
    work(us);
    pthread_mutex_unlock(lock);
}

static void private(struct own *me)
{
    hold(&me->lock, 5);
    work(5);
}

static void shared(struct own *me)
{
    (void)me;
    hold(&one, 5);
    work(5);
}

static void saturated(struct own *me)
{
    (void)me;
    hold(&one, 50);
    work(2);
}

static void readers(struct own *me)
{
    (void)me;
    pthread_rwlock_rdlock(&shelf);
    work(20);
    pthread_rwlock_unlock(&shelf);
    work(5);
}

static void write_of_100(struct own *me, unsigned writes)
{
    if (draw(me) % 100 < writes)
        pthread_rwlock_wrlock(&shelf);
    else
        pthread_rwlock_rdlock(&shelf);
    work(20);
    pthread_rwlock_unlock(&shelf);
    work(20);
}

static void writers1(struct own *me)
{
    write_of_100(me, 1);
}

static void writers10(struct own *me)
{
    write_of_100(me, 10);
}

static void writers50(struct own *me)
{
    write_of_100(me, 50);
}

static void sleeps(struct own *me)
{
    hold(&me->lock, 5);
    nap(1000);
}

static void repairman(struct own *me)
{
    nap(exponential(me, 20000));
    hold(&one, exponential(me, 2000));
}

static void sequence(struct own *me)
{
    (void)me;
    work(2000);
    hold(&one, 200);
    hold(&two, 500);
}

static void nested(struct own *me)
{
    (void)me;
    work(1000);
    pthread_mutex_lock(&one);
    work(200);
    hold(&two, 300);
    pthread_mutex_unlock(&one);
}

static struct buffer {
    pthread_mutex_t lock;
    pthread_cond_t items, rooms;
    int full;
} buffers[2] = {{.lock = PTHREAD_MUTEX_INITIALIZER}, {.lock = PTHREAD_MUTEX_INITIALIZER}};

static void put(struct buffer *buffer)
{
    pthread_mutex_lock(&buffer->lock);
    while (buffer->full == ROOM && !over)
        pthread_cond_wait(&buffer->rooms, &buffer->lock);
    buffer->full++;
    pthread_cond_signal(&buffer->items);
    pthread_mutex_unlock(&buffer->lock);
}

static void take(struct buffer *buffer)
{
    pthread_mutex_lock(&buffer->lock);
    while (!buffer->full && !over)
        pthread_cond_wait(&buffer->items, &buffer->lock);
    buffer->full--;
    pthread_cond_signal(&buffer->rooms);
    pthread_mutex_unlock(&buffer->lock);
}

static void buffer(struct own *me)
{
    if (me - own < threads / 4) {
        work(1000);
        put(buffers);
    } else {
        take(buffers);
        work(2000);
    }
}

static void barrier(struct own *me)
{
    work(1100 + 100 * (draw(me) % 10));
    hold(&me->lock, 1);
    pthread_barrier_wait(&line);
}

static void stealing(struct own *me)
{
    struct own *from = draw(me) % 8 ? me : &own[draw(me) % threads];
    hold(&from->lock, 2);
    work(50);
}

static void striped(struct own *me)
{
    hold(&own[draw(me) % MOST].lock, 1);
    work(20);
}

static void mostly(struct own *me)
{
    (void)me;
    pthread_rwlock_rdlock(&shelf);
    work(20);
    pthread_rwlock_unlock(&shelf);
    hold(&one, 1);
    work(30);
}

static void spinning(struct own *me)
{
    (void)me;
    pthread_spin_lock(&spin);
    work(1);
    pthread_spin_unlock(&spin);
    work(50);
}

static void pool(struct own *me)
{
    (void)me;
    sem_wait(&units);
    nap(1000);
    sem_post(&units);
    work(20);
}

static void pipeline(struct own *me)
{
    switch ((me - own) % 3) {
    case 0:
        work(500);
        put(&buffers[0]);
        break;
    case 1:
        take(&buffers[0]);
        work(1000);
        put(&buffers[1]);
        break;
    default:
        take(&buffers[1]);
        work(500);
    }
}

static void asleep(struct own *me)
{
    (void)me;
    pthread_mutex_lock(&one);
    nap(1000);
    pthread_mutex_unlock(&one);
    work(20);
}

static void uneven(struct own *me)
{
    hold(&me->lock, 5);
    work(5 * (me - own + 1));
}

enum { KEYS = 1 << 16, BUCKETS = 1 << 14 };

static struct entry {
    struct entry *next, *older, *newer;
} entries[KEYS];
static struct shard {
    pthread_mutex_t lock;
    struct entry *buckets[BUCKETS], used;
} *caches;
static long steps = 60;

static void fill(void)
{
    caches = calloc(shards, sizeof *caches);
    for (int index = 0; index < shards; index++) {
        pthread_mutex_init(&caches[index].lock, 0);
        caches[index].used.older = caches[index].used.newer = &caches[index].used;
    }
    for (int key = 0; key < KEYS; key++) {
        struct shard *shard = &caches[key % shards];
        struct entry *entry = &entries[key], **bucket = &shard->buckets[key / shards % BUCKETS];
        *entry = (struct entry){*bucket, shard->used.older, &shard->used};
        entry->older->newer = entry->newer->older = *bucket = entry;
    }
}

static void cache(struct own *me)
{
    int key = draw(me) % KEYS;
    struct shard *shard = &caches[key % shards];
    pthread_mutex_lock(&shard->lock);
    struct entry *entry = shard->buckets[key / shards % BUCKETS];
    while (entry != &entries[key])
        entry = entry->next;
    entry->older->newer = entry->newer;
    entry->newer->older = entry->older;
    entry->older = shard->used.older;
    entry->newer = &shard->used;
    entry->older->newer = entry->newer->older = entry;
    pthread_mutex_unlock(&shard->lock);
    for (volatile long left = steps; left; left--)
        ;
}

static const struct mode {
    const char *name;
    void (*cycle)(struct own *);
} modes[] = {
    {"private", private},     {"shared", shared},       {"saturated", saturated},
    {"readers", readers},     {"writers1", writers1},   {"writers10", writers10},
    {"writers50", writers50}, {"sleeps", sleeps},       {"repairman", repairman},
    {"sequence", sequence},   {"nested", nested},       {"buffer", buffer},
    {"barrier", barrier},     {"stealing", stealing},   {"striped", striped},
    {"mostly", mostly},       {"spinning", spinning},   {"pool", pool},
    {"pipeline", pipeline},   {"asleep", asleep},       {"uneven", uneven},
    {"cache", cache},
};
static const struct mode *mode;

static void *run(void *argument)
{
    struct own *me = argument;
    while (!over) {
        mode->cycle(me);
        me->cycles++;
    }
    // Threads that wait for others go home.
    for (int index = 0; index < 2; index++) {
        pthread_mutex_lock(&buffers[index].lock);
        pthread_cond_broadcast(&buffers[index].items);
        pthread_cond_broadcast(&buffers[index].rooms);
        pthread_mutex_unlock(&buffers[index].lock);
    }
    return 0;
}

// The speed of the least disturbed of some rounds of work.
static void calibrate(void)
{
    double least = 1;
    for (int look = 0; look < 20; look++) {
        double begin = now(CLOCK_THREAD_CPUTIME_ID);
        work(200);
        double took = now(CLOCK_THREAD_CPUTIME_ID) - begin;
        least = took < least ? took : least;
    }
    loops_per_us *= 200e-6 / least;
}

int main(int count, char **words)
{
    if (count < 4)
        return 2;
    for (const struct mode *each = modes; each < modes + sizeof modes / sizeof *modes; each++)
        if (!strcmp(words[1], each->name))
            mode = each;
    threads = atoi(words[2]);
    if (!mode || threads < 1 || threads > MOST)
        return 2;
    if (count > 4)
        shards = atoi(words[4]);
    if (count > 5)
        steps = atol(words[5]);
    calibrate();
    fill();
    sem_init(&units, 0, UNITS);
    pthread_spin_init(&spin, 0);
    pthread_barrier_init(&line, 0, threads);
    pthread_t all[MOST];
    for (int index = 0; index < MOST; index++) {
        pthread_mutex_init(&own[index].lock, 0);
        own[index].random = index;
    }
    double begin = now(CLOCK_MONOTONIC);
    for (int index = 0; index < threads; index++)
        pthread_create(&all[index], 0, run, &own[index]);
    while (now(CLOCK_MONOTONIC) - begin < atof(words[3]))
        nap(10000);
    over = 1;
    double took = now(CLOCK_MONOTONIC) - begin;
    long cycles = 0;
    for (int index = 0; index < threads; index++)
        cycles += own[index].cycles;
    printf("%.0f\n", cycles / took);
    fflush(stdout);
    if (mode->cycle != barrier)
        for (int index = 0; index < threads; index++)
            pthread_join(all[index], 0);
    return 0;
}
