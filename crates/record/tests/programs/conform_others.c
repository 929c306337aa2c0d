/* Reader/writer locks, spinlocks, barriers, C11, semaphores, and all of them between processes. */
#include "conform.h"

struct wait {
    pthread_rwlock_t *lock;
    int (*function)(pthread_rwlock_t *);
};

static int take(void *data) {
    struct wait *wait = data;
    int result = wait->function(wait->lock);
    if (result == 0)
        pthread_rwlock_unlock(wait->lock);
    return result;
}

static int other(pthread_rwlock_t *lock, int (*function)(pthread_rwlock_t *)) {
    struct wait wait = {lock, function};
    return elsewhere(take, &wait);
}

static int rwlock_excludes(void) {
    pthread_rwlock_t one = PTHREAD_RWLOCK_INITIALIZER;
    MUST(pthread_rwlock_rdlock(&one) == 0 && pthread_rwlock_rdlock(&one) == 0);
    MUST(other(&one, pthread_rwlock_tryrdlock) == 0);
    MUST(other(&one, pthread_rwlock_trywrlock) == EBUSY);
    MUST(pthread_rwlock_unlock(&one) == 0);
    MUST(other(&one, pthread_rwlock_trywrlock) == EBUSY);
    MUST(pthread_rwlock_unlock(&one) == 0 && pthread_rwlock_wrlock(&one) == 0);
    MUST(other(&one, pthread_rwlock_tryrdlock) == EBUSY);
    MUST(other(&one, pthread_rwlock_trywrlock) == EBUSY);
    MUST(pthread_rwlock_rdlock(&one) == EDEADLK && pthread_rwlock_wrlock(&one) == EDEADLK);
    MUST(pthread_rwlock_unlock(&one) == 0 && other(&one, pthread_rwlock_wrlock) == 0);
    return pthread_rwlock_destroy(&one);
}

static int timed_read(pthread_rwlock_t *lock) {
    struct timespec end = after(CLOCK_REALTIME, 2000000);
    int result = pthread_rwlock_timedrdlock(lock, &end);
    return result == ETIMEDOUT && !is_over(CLOCK_REALTIME, end) ? -1 : result;
}

static int timed_write(pthread_rwlock_t *lock) {
    struct timespec end = after(CLOCK_REALTIME, 2000000);
    int result = pthread_rwlock_timedwrlock(lock, &end);
    return result == ETIMEDOUT && !is_over(CLOCK_REALTIME, end) ? -1 : result;
}

static int clock_read(pthread_rwlock_t *lock) {
    struct timespec end = after(CLOCK_MONOTONIC, 2000000);
    int result = pthread_rwlock_clockrdlock(lock, CLOCK_MONOTONIC, &end);
    return result == ETIMEDOUT && !is_over(CLOCK_MONOTONIC, end) ? -1 : result;
}

static int clock_write(pthread_rwlock_t *lock) {
    struct timespec end = after(CLOCK_MONOTONIC, 2000000);
    int result = pthread_rwlock_clockwrlock(lock, CLOCK_MONOTONIC, &end);
    return result == ETIMEDOUT && !is_over(CLOCK_MONOTONIC, end) ? -1 : result;
}

static int rwlock_timed(void) {
    pthread_rwlock_t one = PTHREAD_RWLOCK_INITIALIZER;
    struct timespec wrong = {.tv_nsec = NS}, past = {.tv_sec = -1};
    MUST(pthread_rwlock_timedrdlock(&one, &wrong) == EINVAL);
    MUST(pthread_rwlock_clockwrlock(&one, CLOCK_PROCESS_CPUTIME_ID, &past) == EINVAL);
    MUST(pthread_rwlock_wrlock(&one) == 0);
    MUST(other(&one, timed_read) == ETIMEDOUT && other(&one, timed_write) == ETIMEDOUT);
    MUST(other(&one, clock_read) == ETIMEDOUT && other(&one, clock_write) == ETIMEDOUT);
    MUST(pthread_rwlock_timedrdlock(&one, &wrong) == EINVAL);
    MUST(pthread_rwlock_unlock(&one) == 0);
    MUST(other(&one, timed_read) == 0 && other(&one, clock_write) == 0);
    return pthread_rwlock_destroy(&one);
}

/* A reader that has the lock gets it again though a writer waits; under the kind that prefers
   writers another reader does not. */
static int rwlock_kind(int kind, int expected) {
    pthread_rwlock_t one;
    pthread_rwlockattr_t attributes;
    struct wait wait = {&one, pthread_rwlock_wrlock};
    struct call writer = {take, &wait, -1};
    pthread_t thread;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, kind);
    pthread_rwlock_init(&one, &attributes);
    MUST(pthread_rwlock_rdlock(&one) == 0);
    pthread_create(&thread, 0, call, &writer);
    int result = 0;
    for (int tries = 0; tries < 2000 && (result = other(&one, timed_read)) != expected; tries++)
        pause_ms(1);
    MUST(result == expected && writer.result == -1);
    if (expected == 0)
        MUST(pthread_rwlock_rdlock(&one) == 0 && pthread_rwlock_unlock(&one) == 0);
    MUST(pthread_rwlock_unlock(&one) == 0);
    pthread_join(thread, 0);
    MUST(writer.result == 0);
    return pthread_rwlock_destroy(&one);
}

static int rwlock_readers_first(void) {
    return rwlock_kind(PTHREAD_RWLOCK_PREFER_READER_NP, 0);
}

static int rwlock_writers_first(void) {
    return rwlock_kind(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, ETIMEDOUT);
}

static int try_spin(void *lock) {
    int result = pthread_spin_trylock(lock);
    if (result == 0)
        pthread_spin_unlock(lock);
    return result;
}

static int spinlock(void) {
    pthread_spinlock_t one;
    pthread_spin_init(&one, PTHREAD_PROCESS_PRIVATE);
    MUST(pthread_spin_lock(&one) == 0 && elsewhere(try_spin, (void *)&one) == EBUSY);
    MUST(pthread_spin_unlock(&one) == 0 && elsewhere(try_spin, (void *)&one) == 0);
    return pthread_spin_destroy(&one);
}

static int pass_barrier(void *barrier) {
    int serial = 0;
    for (int i = 0; i < 200; i++)
        serial += pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    return serial;
}

static int barrier(void) {
    pthread_barrier_t one;
    struct call others[3];
    pthread_t threads[3];
    pthread_barrier_init(&one, 0, 4);
    for (int i = 0; i < 3; i++) {
        others[i] = (struct call){pass_barrier, &one, 0};
        pthread_create(&threads[i], 0, call, &others[i]);
    }
    int serial = pass_barrier(&one);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], 0);
        serial += others[i].result;
    }
    MUST(serial == 200);
    return pthread_barrier_destroy(&one);
}

static int try_c11(void *mutex) {
    int result = mtx_trylock(mutex);
    if (result == thrd_success)
        mtx_unlock(mutex);
    return result;
}

static int c11(void) {
    struct timespec end = after(CLOCK_REALTIME, 2000000);
    mtx_t plain, again;
    cnd_t condition;
    MUST(mtx_init(&plain, mtx_timed) == thrd_success && cnd_init(&condition) == thrd_success);
    MUST(mtx_lock(&plain) == thrd_success && elsewhere(try_c11, &plain) == thrd_busy);
    MUST(mtx_timedlock(&plain, &end) == thrd_timedout && is_over(CLOCK_REALTIME, end));
    end = after(CLOCK_REALTIME, 2000000);
    int result;
    while ((result = cnd_timedwait(&condition, &plain, &end)) == thrd_success)
        ;
    MUST(result == thrd_timedout && elsewhere(try_c11, &plain) == thrd_busy);
    MUST(cnd_signal(&condition) == thrd_success && cnd_broadcast(&condition) == thrd_success);
    MUST(mtx_unlock(&plain) == thrd_success && elsewhere(try_c11, &plain) == thrd_success);
    MUST(mtx_init(&again, mtx_plain | mtx_recursive) == thrd_success);
    MUST(mtx_lock(&again) == thrd_success && mtx_trylock(&again) == thrd_success);
    MUST(mtx_unlock(&again) == thrd_success && elsewhere(try_c11, &again) == thrd_busy);
    MUST(mtx_unlock(&again) == thrd_success && elsewhere(try_c11, &again) == thrd_success);
    mtx_destroy(&plain);
    mtx_destroy(&again);
    cnd_destroy(&condition);
    return 0;
}

static int semaphore(void) {
    sem_t one;
    int value;
    struct timespec end, wrong = {.tv_nsec = -1}, past = {.tv_sec = -1};
    MUST(sem_init(&one, 0, 2) == 0 && sem_getvalue(&one, &value) == 0 && value == 2);
    MUST(sem_timedwait(&one, &wrong) == -1 && errno == EINVAL);
    MUST(sem_clockwait(&one, CLOCK_PROCESS_CPUTIME_ID, &past) == -1 && errno == EINVAL);
    MUST(sem_wait(&one) == 0 && sem_trywait(&one) == 0);
    MUST(sem_trywait(&one) == -1 && errno == EAGAIN);
    MUST(sem_getvalue(&one, &value) == 0 && value == 0);
    end = after(CLOCK_REALTIME, 2000000);
    MUST(sem_timedwait(&one, &end) == -1 && errno == ETIMEDOUT && is_over(CLOCK_REALTIME, end));
    end = after(CLOCK_MONOTONIC, 2000000);
    MUST(sem_clockwait(&one, CLOCK_MONOTONIC, &end) == -1 && errno == ETIMEDOUT);
    MUST(is_over(CLOCK_MONOTONIC, end));
    MUST(sem_timedwait(&one, &past) == -1 && errno == ETIMEDOUT);
    MUST(sem_timedwait(&one, &wrong) == -1 && errno == EINVAL);
    MUST(sem_clockwait(&one, CLOCK_PROCESS_CPUTIME_ID, &end) == -1 && errno == EINVAL);
    MUST(sem_post(&one) == 0 && sem_timedwait(&one, &past) == 0 && sem_destroy(&one) == 0);
    MUST(sem_init(&one, 0, SEM_VALUE_MAX) == 0);
    MUST(sem_post(&one) == -1 && errno == EOVERFLOW && sem_wait(&one) == 0);
    MUST(sem_init(&one, 0, SEM_VALUE_MAX + 1u) == -1 && errno == EINVAL);
    return 0;
}

static void handle(int signal) {
    (void)signal;
}

static int interrupted(void *semaphore) {
    return sem_wait(semaphore) == -1 ? errno : 0;
}

static int semaphore_signals(void) {
    struct sigaction action = {.sa_handler = handle};
    struct call waiter = {0};
    sem_t one;
    pthread_t thread;
    sem_init(&one, 0, 0);
    sigaction(SIGUSR2, &action, 0);
    waiter = (struct call){interrupted, &one, -1};
    pthread_create(&thread, 0, call, &waiter);
    for (int tries = 0; tries < 20000 && waiter.result == -1; tries++) {
        pause_ms(1);
        if (waiter.result == -1)
            pthread_kill(thread, SIGUSR2);
    }
    if (waiter.result == -1)
        sem_post(&one);
    pthread_join(thread, 0);
    MUST(waiter.result == EINTR);
    int value;
    MUST(sem_getvalue(&one, &value) == 0 && value == 0);
    return sem_destroy(&one);
}

static void *wait_for_ever(void *semaphore) {
    for (;;)
        sem_wait(semaphore);
    return 0;
}

static void *take_when_cancelled(void *semaphore) {
    pthread_cancel(pthread_self());
    sem_wait(semaphore);
    return 0;
}

static int semaphore_cancelled(void) {
    sem_t one;
    pthread_t thread;
    void *result;
    sem_init(&one, 0, 0);
    pthread_create(&thread, 0, wait_for_ever, &one);
    pause_ms(5);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    MUST(result == PTHREAD_CANCELED);
    /* The unit is not given to the one that is gone. */
    MUST(sem_post(&one) == 0 && sem_trywait(&one) == 0);
    /* A unit is free, and the cancellation is pending. */
    MUST(sem_post(&one) == 0);
    pthread_create(&thread, 0, take_when_cancelled, &one);
    pthread_join(thread, &result);
    MUST(result == PTHREAD_CANCELED && sem_trywait(&one) == 0);
    return sem_destroy(&one);
}

static int take_and_post(void *data) {
    sem_t *semaphores = data;
    for (int i = 0; i < 2000; i++) {
        sem_wait(&semaphores[0]);
        sem_post(&semaphores[1]);
    }
    return 0;
}

static int semaphore_loses_nothing(void) {
    sem_t both[2];
    struct call others[3];
    pthread_t threads[3];
    sem_init(&both[0], 0, 0);
    sem_init(&both[1], 0, 0);
    for (int i = 0; i < 3; i++) {
        others[i] = (struct call){take_and_post, both, 0};
        pthread_create(&threads[i], 0, call, &others[i]);
    }
    for (int i = 0; i < 6000; i++) {
        sem_post(&both[0]);
        sem_wait(&both[1]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    int value;
    MUST(sem_getvalue(&both[0], &value) == 0 && value == 0);
    return sem_getvalue(&both[1], &value) + value;
}

/* What two processes share. */
struct shared {
    pthread_mutex_t mutex, robust;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    sem_t semaphore;
    int number, by_rwlock, by_semaphore;
};

static void make_shared(struct shared *shared) {
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    pthread_barrierattr_t barrier;
    make(&shared->mutex, PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PROCESS_SHARED, 0);
    make(&shared->robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED, 0);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->condition, &condition);
    pthread_rwlockattr_init(&rwlock);
    pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&shared->rwlock, &rwlock);
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &barrier, 2);
    sem_init(&shared->semaphore, 1, 1);
}

static void use_shared(struct shared *shared, int own) {
    pthread_barrier_wait(&shared->barrier);
    for (int i = 0; i < 2000; i++) {
        pthread_rwlock_wrlock(&shared->rwlock);
        shared->by_rwlock++;
        pthread_rwlock_unlock(&shared->rwlock);
        sem_wait(&shared->semaphore);
        shared->by_semaphore++;
        sem_post(&shared->semaphore);
        pthread_mutex_lock(&shared->mutex);
        while (shared->number % 2 != own)
            pthread_cond_wait(&shared->condition, &shared->mutex);
        shared->number++;
        pthread_cond_signal(&shared->condition);
        pthread_mutex_unlock(&shared->mutex);
    }
}

static int processes(void) {
    int status;
    struct shared *shared =
        mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make_shared(shared);
    pid_t child = fork();
    if (child == 0) {
        use_shared(shared, 1);
        pthread_mutex_lock(&shared->robust);
        _exit(0);
    }
    use_shared(shared, 0);
    waitpid(child, &status, 0);
    MUST(status == 0 && shared->number == 4000);
    MUST(shared->by_rwlock == 4000 && shared->by_semaphore == 4000);
    MUST(pthread_mutex_lock(&shared->robust) == EOWNERDEAD);
    MUST(pthread_mutex_consistent(&shared->robust) == 0);
    return pthread_mutex_unlock(&shared->robust);
}

int main(void) {
    static const struct check checks[] = {
        {"rwlock, exclusion", rwlock_excludes},
        {"rwlock, time limits", rwlock_timed},
        {"rwlock, readers first", rwlock_readers_first},
        {"rwlock, writers first", rwlock_writers_first},
        {"spinlock", spinlock},
        {"barrier", barrier},
        {"C11", c11},
        {"semaphore", semaphore},
        {"semaphore, signals", semaphore_signals},
        {"semaphore, cancelled", semaphore_cancelled},
        {"semaphore, no unit lost", semaphore_loses_nothing},
        {"processes", processes},
    };
    return run(checks, sizeof checks / sizeof *checks);
}
