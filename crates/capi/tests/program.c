/* Every function of convoy_sync.h, and threads that count under each lock. */
#include "convoy_sync.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 8
#define TIMES 20000
#define MS 1000000ull

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static convoy_mutex_t mutex = CONVOY_MUTEX_INIT;
static convoy_sem_t sem = CONVOY_SEM_INIT(1);
static convoy_rwlock_t lock = CONVOY_RWLOCK_INIT;
static convoy_cond_t cond = CONVOY_COND_INIT;
static convoy_once_t once = CONVOY_ONCE_INIT;
static convoy_barrier_t barrier = CONVOY_BARRIER_INIT(THREADS);

static long counts[3];
static int set_up, leaders, arrived;

static void add_one(void *count) { ++*(int *)count; }

static void *work(void *unused) {
    convoy_once(&once, add_one, &set_up);
    if (convoy_barrier_wait(&barrier)) __atomic_add_fetch(&leaders, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < TIMES; ++i) {
        convoy_mutex_lock(&mutex);
        ++counts[0];
        convoy_mutex_unlock(&mutex);
        convoy_sem_wait(&sem);
        ++counts[1];
        convoy_sem_post(&sem);
        convoy_rwlock_wrlock(&lock);
        ++counts[2];
        convoy_rwlock_wrunlock(&lock);
        convoy_rwlock_rdlock(&lock);
        CHECK(counts[2] > 0);
        convoy_rwlock_rdunlock(&lock);
    }
    convoy_mutex_lock(&mutex);
    if (++arrived == THREADS) convoy_cond_broadcast(&cond);
    while (arrived < THREADS) convoy_cond_wait(&cond, &mutex);
    convoy_mutex_unlock(&mutex);
    return unused;
}

/* Properties that a single thread can observe. */
static void alone(void) {
    convoy_mutex_t m;
    convoy_mutex_init(&m);
    CHECK(convoy_mutex_trylock(&m) && !convoy_mutex_trylock(&m));
    CHECK(!convoy_mutex_timedlock(&m, MS));
    convoy_cond_t c;
    convoy_cond_init(&c);
    CHECK(!convoy_cond_timedwait(&c, &m, MS) && !convoy_mutex_trylock(&m));
    CHECK(!convoy_cond_signal(&c) && convoy_cond_broadcast(&c) == 0);
    convoy_mutex_unlock(&m);
    convoy_mutex_destroy(&m);

    convoy_sem_t s;
    convoy_sem_init(&s, 2);
    CHECK(convoy_sem_trywait(&s) && convoy_sem_value(&s) == 1 && convoy_sem_timedwait(&s, MS));
    CHECK(!convoy_sem_trywait(&s) && !convoy_sem_timedwait(&s, MS));
    convoy_sem_post(&s);
    convoy_sem_destroy(&s);

    convoy_rwlock_t l;
    convoy_rwlock_init(&l);
    CHECK(convoy_rwlock_tryrdlock(&l) && convoy_rwlock_timedrdlock(&l, MS));
    CHECK(!convoy_rwlock_trywrlock(&l) && !convoy_rwlock_timedwrlock(&l, MS));
    convoy_rwlock_rdunlock(&l);
    convoy_rwlock_rdunlock(&l);
    CHECK(convoy_rwlock_trywrlock(&l) && !convoy_rwlock_tryrdlock(&l));
    CHECK(!convoy_rwlock_timedrdlock(&l, MS));
    convoy_rwlock_wrunlock(&l);
    convoy_rwlock_destroy(&l);
}

int main(void) {
    alone();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i) CHECK(!pthread_create(&threads[i], 0, work, 0));
    for (int i = 0; i < THREADS; ++i) CHECK(!pthread_join(threads[i], 0));
    for (int i = 0; i < 3; ++i) CHECK(counts[i] == (long)THREADS * TIMES);
    CHECK(set_up == 1 && leaders == 1);
    convoy_mutex_destroy(&mutex);
    convoy_sem_destroy(&sem);
    convoy_rwlock_destroy(&lock);
    printf("%ld sections\n", counts[0] + counts[1] + counts[2]);
    return 0;
}
