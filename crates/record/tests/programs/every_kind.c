/* One of each function that is recorded, so often that numbers can be told apart. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <threads.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spinlock;
static pthread_barrier_t barrier;
static mtx_t c11;
static sem_t semaphore;
static int turn, failures;

static void must(int is, const char *what) {
    if (!is) {
        printf("failed: %s\n", what);
        failures++;
    }
}

static void *other(void *unused) {
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&mutex);
    while (turn == 0)
        pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    sem_post(&semaphore);
    return unused;
}

int main(void) {
    struct timespec soon;
    pthread_t thread;
    pthread_spin_init(&spinlock, 0);
    pthread_barrier_init(&barrier, 0, 2);
    mtx_init(&c11, mtx_plain);
    sem_init(&semaphore, 0, 0);
    pthread_create(&thread, 0, other, 0);
    pthread_barrier_wait(&barrier);

    for (int i = 0; i < 7; i++) {
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        pthread_spin_lock(&spinlock);
        pthread_spin_unlock(&spinlock);
        must(mtx_lock(&c11) == thrd_success, "mtx_lock");
        must(mtx_trylock(&c11) == thrd_busy, "mtx_trylock");
        must(mtx_unlock(&c11) == thrd_success, "mtx_unlock");
    }
    pthread_rwlock_wrlock(&rwlock);
    must(pthread_rwlock_tryrdlock(&rwlock) == EBUSY, "tryrdlock");
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 20000000;
    if (soon.tv_nsec >= 1000000000) {
        soon.tv_sec++;
        soon.tv_nsec -= 1000000000;
    }
    must(pthread_rwlock_unlock(&rwlock) == 0, "rwlock_unlock");

    must(pthread_mutex_lock(&recursive) == 0, "recursive");
    must(pthread_mutex_lock(&recursive) == 0, "recursive twice");
    must(pthread_mutex_unlock(&recursive) == 0, "recursive unlock");
    must(pthread_mutex_unlock(&recursive) == 0, "recursive unlock twice");
    must(pthread_mutex_lock(&checked) == 0, "checked");
    must(pthread_mutex_lock(&checked) == EDEADLK, "checked twice");
    must(pthread_mutex_unlock(&checked) == 0, "checked unlock");
    must(pthread_mutex_unlock(&checked) == EPERM, "checked unlock twice");

    pthread_mutex_lock(&mutex);
    must(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT, "timedwait");
    turn = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    sem_wait(&semaphore);
    must(sem_trywait(&semaphore) == -1 && errno == EAGAIN, "sem_trywait");
    must(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT, "sem_timedwait");
    pthread_join(thread, 0);
    printf("failures %d\n", failures);
    return failures;
}
