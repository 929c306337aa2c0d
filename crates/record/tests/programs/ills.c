// One cause of lost time in each mode, and programs that look like it and have none. The second
// argument is how long to run, seconds.
#define _GNU_SOURCE
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double end;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static long items, finished;
static int ends[2], to_all, events;
static _Alignas(64) atomic_int word;
static FILE *sink;

#define LOCK pthread_mutex_lock(&gate)
#define UNLOCK pthread_mutex_unlock(&gate)
#define READ pthread_rwlock_rdlock(&table)
#define WRITE pthread_rwlock_wrlock(&table)
#define LEAVE pthread_rwlock_unlock(&table)

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void compute(long n) {
    uint64_t x = 1;
    for (long i = 0; i < n; i++) x = x * 6364136223846793005ull + 1442695040888963407ull;
    __asm__ volatile("" ::"r"(x));
}

// As long on a CPU, however busy the machine is.
static void compute_ms(double ms) {
    double until = seconds_of(CLOCK_THREAD_CPUTIME_ID) + 1e-3 * ms;
    do compute(1000);
    while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < until);
}

static void nap(double ms) {
    usleep((useconds_t)(1e3 * ms));
}

// A thread that does the same until the time is over.
#define ROLE(name, ...)                                                                            \
    static void *name(void *a) {                                                                   \
        while (seconds_of(CLOCK_MONOTONIC) < end) {                                                \
            __VA_ARGS__                                                                            \
        }                                                                                          \
        return a;                                                                                  \
    }

ROLE(uses, LOCK; compute(50); UNLOCK; nap(.3);)
ROLE(saves, LOCK; nap(4); UNLOCK; nap(.5);)
ROLE(sleeps_outside, LOCK; compute(50); UNLOCK; nap(4);)
ROLE(receives, char c; WRITE; if (read(ends[0], &c, 1)) {} LEAVE; nap(.2);)
ROLE(sends, nap(3); if (write(ends[1], "x", 1)) {})
ROLE(looks, READ; compute(50); LEAVE; nap(.2);)
ROLE(crunches, LOCK; compute_ms(3); UNLOCK; nap(1);)
ROLE(hogs, LOCK; compute_ms(2); UNLOCK;)
ROLE(scans, READ; nap(2); LEAVE;)
ROLE(scans_rarely, READ; nap(1); LEAVE; nap(20);)
ROLE(changes, WRITE; compute(100); LEAVE; nap(1);)
ROLE(reports, for (int i = 0; i < 100; i++) fprintf(sink, "%d %d\n", i, 7);)
ROLE(shorts, for (int i = 0; i < 100; i++) { LOCK; compute(5); UNLOCK; compute(50); })
ROLE(computes, compute(10000);)
ROLE(waits_for_input, char c; if (read(ends[0], &c, 1)) {} LOCK; UNLOCK;)
// Attempts with a sleep between them, and the same at a lock that no other thread takes.
static __thread pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
ROLE(polls, while (pthread_mutex_trylock(&gate)) nap(.5); nap(3); UNLOCK;)
ROLE(polls_own, nap(3); while (pthread_mutex_trylock(&mine)) nap(.5); pthread_mutex_unlock(&mine);)

ROLE(speaks, setlocale(LC_NUMERIC, "C"); setlocale(LC_NUMERIC, "C.UTF-8");)

static struct { atomic_long all; } near[4];
static struct { _Alignas(128) atomic_long all; } apart[4];

static void *counts(void *own) {
    while (seconds_of(CLOCK_MONOTONIC) < end)
        for (int i = 0; i < 1000; i++) atomic_fetch_add(&near[(long)own].all, 1);
    return 0;
}

static void *counts_apart(void *own) {
    while (seconds_of(CLOCK_MONOTONIC) < end)
        for (int i = 0; i < 1000; i++) atomic_fetch_add(&apart[(long)own].all, 1);
    return 0;
}

ROLE(tries, while (pthread_mutex_trylock(&gate)) {} compute_ms(1); UNLOCK; compute_ms(.1);)
ROLE(writes_disk, pthread_mutex_lock(&other); nap(4); pthread_mutex_unlock(&other); nap(.3);)
ROLE(evicts, LOCK; pthread_mutex_lock(&other); pthread_mutex_unlock(&other); UNLOCK; nap(.2);)
ROLE(waits_for_itself,
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    LOCK;
    pthread_mutex_timedlock(&gate, &until);
    UNLOCK;)
ROLE(waits_once, LOCK; UNLOCK; nap(100);)

static void *stamps(void *a) {
    char text[64];
    struct tm tm;
    time_t now = 1000000000;
    localtime_r(&now, &tm);
    while (seconds_of(CLOCK_MONOTONIC) < end)
        for (int i = 0; i < 100; i++) {
            mktime(&tm);
            strftime(text, sizeof text, "%c %Z", &tm);
        }
    return a;
}

static void *workers(void *a) {
    LOCK;
    while (end > 0) {
        while (!items && end > 0) pthread_cond_wait(&work, &gate);
        items--;
        UNLOCK;
        LOCK;
        finished++;
        pthread_cond_signal(&done);
    }
    UNLOCK;
    return a;
}

static void *dispatches(void *a) {
    for (long i = 1; seconds_of(CLOCK_MONOTONIC) < end; i++) {
        LOCK;
        items++;
        if (to_all) pthread_cond_broadcast(&work);
        else pthread_cond_signal(&work);
        while (finished < i) pthread_cond_wait(&done, &gate);
        UNLOCK;
    }
    LOCK;
    end = 0;
    pthread_cond_broadcast(&work);
    UNLOCK;
    return a;
}

__attribute__((noinline)) static void spin(void) {
    int none = 0;
    while (!atomic_compare_exchange_weak(&word, &none, 1)) {
        none = 0;
        __builtin_ia32_pause();
    }
}

__attribute__((noinline)) static void spin_and_look(void) {
    do while (atomic_load_explicit(&word, memory_order_relaxed)) {}
    while (atomic_exchange(&word, 1));
}

ROLE(spins, ((void (*)(void))a)(); compute_ms(1); atomic_store(&word, 0); compute_ms(.1);)
static struct { _Alignas(64) atomic_int word; } own[4];

ROLE(owns,
    for (int i = 0; i < 1000; i++) {
        while (atomic_exchange(&own[(long)a].word, 1)) {}
        compute(5);
        atomic_store(&own[(long)a].word, 0);
    })
ROLE(spins_at_once, while (atomic_exchange(&word, 1)) {} compute_ms(1); atomic_store(&word, 0);
    compute_ms(.1);)
ROLE(yields, while (atomic_exchange(&word, 1)) sched_yield(); compute_ms(.1); word = 0;)

static void both(pthread_mutex_t *a, pthread_mutex_t *b) {
    pthread_mutex_lock(a);
    nap(100);
    pthread_mutex_lock(b);
}

static void *one_way(void *a) {
    both(&gate, &other);
    return a;
}

static void *other_way(void *a) {
    both(&other, &gate);
    return a;
}

// Semaphores that main has used before, as locks of Python.
static sem_t units[2];

static void *unit_first(void *a) {
    long first = (long)a;
    sem_wait(&units[first]);
    nap(50);
    sem_wait(&units[1 - first]);
    return a;
}

static void *twice(void *a) {
    both(&gate, &gate);
    return a;
}

static void *leaves(void *a) {
    LOCK;
    return a;
}

static void *upgrades(void *a) {
    READ;
    nap(100);
    WRITE;
    return a;
}

static void *holds_long(void *a) {
    LOCK;
    nap(700);
    UNLOCK;
    return a;
}

static struct member {
    pthread_mutex_t gate;
    pthread_cond_t told;
    int has;
} ring[8];

static long arrived, phase;

// A barrier, with a few microseconds of work between two phases. Its last thread ends all.
static void *phases(void *a) {
    for (int ends = 0; !ends;) {
        compute(3000);
        LOCK;
        long mine = phase;
        if (++arrived == 8) {
            arrived = 0;
            phase = seconds_of(CLOCK_MONOTONIC) < end ? mine + 1 : -1;
            pthread_cond_broadcast(&done);
        } else {
            while (phase == mine) pthread_cond_wait(&done, &gate);
        }
        ends = phase < 0;
        UNLOCK;
    }
    return a;
}

/* Each thread waits on a condition of its own, and wakes the next one. */
static void *goes_round(void *a) {
    struct member *own = a, *next = own == &ring[7] ? ring : own + 1;
    for (int ends = 0; !ends;) {
        pthread_mutex_lock(&own->gate);
        while (!own->has) pthread_cond_wait(&own->told, &own->gate);
        own->has = 0;
        pthread_mutex_unlock(&own->gate);
        ends = seconds_of(CLOCK_MONOTONIC) > end;
        pthread_mutex_lock(&next->gate);
        next->has = 1;
        pthread_cond_signal(&next->told);
        pthread_mutex_unlock(&next->gate);
    }
    return a;
}

/* A pool of a few units behind a condition: the thread that returns one often takes it again
   before the woken thread runs. */
static void takes_unit(void) {
    LOCK;
    while (items == 0) pthread_cond_wait(&work, &gate);
    items--;
    UNLOCK;
}
static void returns_unit(void) {
    LOCK;
    items++;
    UNLOCK;
    pthread_cond_signal(&work);
}
ROLE(borrows, takes_unit(); nap(3); returns_unit(); compute(20000);)

/* One thread waits for events, all others for work that it finds: they are idle. */
ROLE(leads, takes_unit(); struct epoll_event event; epoll_wait(events, &event, 1, 3);
     returns_unit();)

/* A queue whose work comes from elsewhere. */
ROLE(serves, takes_unit(); compute_ms(0.2);)
ROLE(feeds, nap(2); returns_unit();)

static pthread_t threads[64];
static int many;

static void start(int count, void *(*role)(void *), void *argument) {
    while (count-- > 0) pthread_create(&threads[many++], 0, role, argument);
}

// Processes that take turns at the lock of a file.
static void forks(void (*uses_once)(int), int object) {
    for (int i = 0; i < 4; i++) {
        if (fork()) continue;
        while (seconds_of(CLOCK_MONOTONIC) < end) uses_once(object);
        _exit(object < 0);
    }
    while (wait(0) > 0) many++;
}

// Each child opens the file: children that inherit an open file share its lock.
static void locks_file(int unused) {
    static int file = -1;
    (void)unused;
    if (file < 0) file = open("/proc/self/exe", O_RDONLY);
    flock(file, LOCK_EX);
    nap(2);
    flock(file, LOCK_UN);
    compute_ms(0.05);
}

static void uses_unit(int semaphores) {
    struct sembuf take = {0, -1, 0}, give = {0, 1, 0};
    semop(semaphores, &take, 1);
    nap(2);
    semop(semaphores, &give, 1);
    compute_ms(0.05);
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    double seconds = count > 2 ? atof(words[2]) : 1;
    end = seconds_of(CLOCK_MONOTONIC) + seconds;
    sink = fopen("/dev/null", "w");
    if (pipe(ends) || !sink) return 2;
#define IS(name) if (!strcmp(mode, name))
    IS("asleep") { start(1, saves, 0); start(4, uses, 0); }
    IS("asleep-write") { start(1, receives, 0); start(1, sends, 0); start(4, looks, 0); }
    IS("not-asleep") start(6, sleeps_outside, 0);
    IS("long") start(3, crunches, 0);
    IS("preempted") { start(4, crunches, 0); start(6, computes, 0); }
    IS("hog") { start(1, hogs, 0); start(2, uses, 0); }
    IS("starves") { start(6, scans, 0); start(1, changes, 0); }
    IS("not-starves") { start(1, scans_rarely, 0); start(1, changes, 0); }
    IS("herd") { to_all = 1; start(16, workers, 0); start(1, dispatches, 0); }
    IS("not-herd") { start(16, workers, 0); start(1, dispatches, 0); }
    IS("phases") start(8, phases, 0);
    IS("ring") {
        /* All before the first thread starts, which wakes the second one. */
        for (int i = 0; i < 8; i++) {
            pthread_mutex_init(&ring[i].gate, 0);
            pthread_cond_init(&ring[i].told, 0);
            ring[i].has = !i;
        }
        for (int i = 0; i < 8; i++) start(1, goes_round, &ring[i]);
    }
    IS("pool") { items = 2; start(8, borrows, 0); }
    IS("flag") { items = 1; start(6, borrows, 0); }
    IS("leader") { items = 1; events = epoll_create1(0); start(6, leads, 0); }
    IS("served") { start(6, serves, 0); start(1, feeds, 0); }
    IS("stdio") start(4, reports, 0);
    IS("zone") start(4, stamps, 0);
    IS("short") start(8, shorts, 0);
    IS("spin") start(4, spins, spin);
    IS("spin-and-look") start(4, spins, spin_and_look);
    IS("spin-exchange") start(4, spins_at_once, 0);
    IS("own-locks") for (long i = 0; i < 4; i++) start(1, owns, (void *)i);
    IS("spin-yield") start(8, yields, 0);
    IS("computes") start(4, computes, 0);
    IS("input") { start(4, waits_for_input, 0); start(1, sends, 0); }
    IS("abba") { start(1, one_way, 0); start(1, other_way, 0); }
    IS("units") {
        for (long i = 0; i < 2; i++) {
            sem_init(&units[i], 0, 1);
            sem_wait(&units[i]);
            sem_post(&units[i]);
        }
        for (long i = 0; i < 2; i++) start(1, unit_first, (void *)i);
    }
    IS("twice") start(1, twice, 0);
    IS("upgrade") start(2, upgrades, 0);
    IS("join") { LOCK; start(1, waits_once, 0); }
    IS("chain") { start(1, writes_disk, 0); start(1, evicts, 0); start(4, uses, 0); }
    IS("tries") start(4, tries, 0);
    IS("polls") start(5, polls, 0);
    IS("not-polls") start(5, polls_own, 0);
    IS("locale") start(4, speaks, 0);
    IS("counts") for (long i = 0; i < 4; i++) start(1, counts, (void *)i);
    IS("counts-apart") for (long i = 0; i < 4; i++) start(1, counts_apart, (void *)i);
    IS("itself") start(1, waits_for_itself, 0);
    IS("left") { start(1, leaves, 0); nap(50); start(2, uses, 0); }
    IS("file-lock") { forks(locks_file, 0); return many != 4; }
    IS("system-semaphore") {
        int semaphores = semget(IPC_PRIVATE, 1, 0600);
        semctl(semaphores, 0, SETVAL, 1);
        forks(uses_unit, semaphores);
        semctl(semaphores, 0, IPC_RMID);
        return many != 4;
    }
    IS("long-wait") { start(1, holds_long, 0); nap(50); start(2, waits_once, 0); }
    // Threads of these never end.
    if (strstr("abba units twice left upgrade join", mode)) alarm(2);
    IS("input") { nap(1e3 * seconds); exit(0); }
    IS("served") { nap(1e3 * seconds); exit(0); }
    IS("asleep-write") { nap(1e3 * seconds); exit(0); }
    for (int i = 0; i < many; i++) pthread_join(threads[i], 0);
    return many == 0;
}
