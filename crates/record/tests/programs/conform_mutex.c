/* Mutexes and condition variables. */
#include "conform.h"

static int mutex_of(pthread_mutex_t *mutex) {
    MUST(pthread_mutex_lock(mutex) == 0);
    MUST(elsewhere(trylock, mutex) == EBUSY);
    MUST(pthread_mutex_destroy(mutex) == EBUSY);
    MUST(pthread_mutex_unlock(mutex) == 0);
    MUST(elsewhere(trylock, mutex) == 0);
    MUST(pthread_mutex_trylock(mutex) == 0 && pthread_mutex_unlock(mutex) == 0);
    return pthread_mutex_destroy(mutex);
}

static int mutex_normal(void) {
    pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, other;
    MUST(pthread_mutex_trylock(&one) == 0 && pthread_mutex_trylock(&one) == EBUSY);
    MUST(pthread_mutex_unlock(&one) == 0 && mutex_of(&one) == 0);
    pthread_mutex_init(&other, 0);
    return mutex_of(&other);
}

static int mutex_adaptive(void) {
    pthread_mutex_t one = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    return mutex_of(&one);
}

static int mutex_recursive(void) {
    pthread_mutex_t one;
    kind(&one, PTHREAD_MUTEX_RECURSIVE);
    for (int i = 0; i < 3; i++)
        MUST(pthread_mutex_lock(&one) == 0);
    MUST(pthread_mutex_trylock(&one) == 0);
    for (int i = 0; i < 4; i++)
        MUST(elsewhere(trylock, &one) == EBUSY && pthread_mutex_unlock(&one) == 0);
    MUST(elsewhere(trylock, &one) == 0 && pthread_mutex_unlock(&one) == EPERM);
    return mutex_of(&one);
}

static int mutex_checked(void) {
    struct timespec soon = after(CLOCK_REALTIME, 1000);
    pthread_mutex_t one;
    kind(&one, PTHREAD_MUTEX_ERRORCHECK);
    MUST(pthread_mutex_unlock(&one) == EPERM && pthread_mutex_lock(&one) == 0);
    MUST(pthread_mutex_lock(&one) == EDEADLK && pthread_mutex_trylock(&one) == EBUSY);
    MUST(pthread_mutex_timedlock(&one, &soon) == EDEADLK);
    MUST(elsewhere(unlock, &one) == EPERM && pthread_mutex_unlock(&one) == 0);
    return mutex_of(&one);
}

static int mutex_timed(void) {
    pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    struct timespec past = {.tv_sec = -1}, wrong = {.tv_sec = time(0) + 9, .tv_nsec = NS};
    MUST(pthread_mutex_clocklock(&one, CLOCK_PROCESS_CPUTIME_ID, &past) == EINVAL);
    MUST(pthread_mutex_timedlock(&one, &past) == 0);
    for (int i = 0; i < 2; i++) {
        struct timespec end = after(clocks[i], 5000000);
        MUST(pthread_mutex_clocklock(&one, clocks[i], &end) == ETIMEDOUT);
        MUST(is_over(clocks[i], end));
        MUST(pthread_mutex_clocklock(&one, clocks[i], &past) == ETIMEDOUT);
        MUST(pthread_mutex_clocklock(&one, clocks[i], &wrong) == EINVAL);
    }
    struct timespec end = after(CLOCK_REALTIME, 5000000);
    MUST(pthread_mutex_timedlock(&one, &end) == ETIMEDOUT && is_over(CLOCK_REALTIME, end));
    MUST(pthread_mutex_timedlock(&one, &past) == ETIMEDOUT);
    MUST(pthread_mutex_timedlock(&one, &wrong) == EINVAL);
    wrong.tv_nsec = -1;
    MUST(pthread_mutex_timedlock(&one, &wrong) == EINVAL);
    MUST(pthread_mutex_clocklock(&one, CLOCK_PROCESS_CPUTIME_ID, &end) == EINVAL);
    MUST(pthread_mutex_unlock(&one) == 0);
    end = after(CLOCK_MONOTONIC, NS);
    MUST(pthread_mutex_clocklock(&one, CLOCK_MONOTONIC, &end) == 0);
    MUST(pthread_mutex_unlock(&one) == 0);
    return mutex_of(&one);
}

/* Whoever waits with a limit that does not run out gets it. */
static int timed_waiter(void *mutex) {
    struct timespec end = after(CLOCK_REALTIME, 60 * NS);
    int result = pthread_mutex_timedlock(mutex, &end);
    pthread_mutex_unlock(mutex);
    return result;
}

static int mutex_timed_gets_it(void) {
    pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    struct call waiter = {timed_waiter, &one, -1};
    pthread_t thread;
    pthread_mutex_lock(&one);
    pthread_create(&thread, 0, call, &waiter);
    pause_ms(5);
    pthread_mutex_unlock(&one);
    pthread_join(thread, 0);
    MUST(waiter.result == 0);
    return mutex_of(&one);
}

static int mutex_robust(void) {
    pthread_mutex_t one;
    make(&one, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0, PTHREAD_PRIO_NONE);
    MUST(elsewhere(lock, &one) == 0);
    MUST(pthread_mutex_lock(&one) == EOWNERDEAD && pthread_mutex_consistent(&one) == 0);
    MUST(pthread_mutex_unlock(&one) == 0 && elsewhere(lock, &one) == 0);
    MUST(pthread_mutex_trylock(&one) == EOWNERDEAD && pthread_mutex_unlock(&one) == 0);
    MUST(pthread_mutex_lock(&one) == ENOTRECOVERABLE);
    return pthread_mutex_destroy(&one);
}

struct pair {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    int number;
};

static int die_with(void *data) {
    struct pair *pair = data;
    pthread_mutex_lock(&pair->mutex);
    pair->number = 1;
    pthread_cond_signal(&pair->condition);
    return 0;
}

static int wait_robust(void *data) {
    struct pair *pair = data;
    int result = 0;
    pthread_mutex_lock(&pair->mutex);
    pair->number = -1;
    while (pair->number == -1 && result == 0)
        result = pthread_cond_wait(&pair->condition, &pair->mutex);
    pthread_mutex_consistent(&pair->mutex);
    pthread_mutex_unlock(&pair->mutex);
    return result;
}

static int condition_robust(void) {
    struct pair pair = {.condition = PTHREAD_COND_INITIALIZER};
    struct call waiter = {wait_robust, &pair, 0};
    pthread_t thread;
    make(&pair.mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, 0, PTHREAD_PRIO_NONE);
    pthread_create(&thread, 0, call, &waiter);
    for (int waits = 0; !waits; pause_ms(1)) {
        pthread_mutex_lock(&pair.mutex);
        waits = pair.number == -1;
        pthread_mutex_unlock(&pair.mutex);
    }
    elsewhere(die_with, &pair);
    pthread_join(thread, 0);
    MUST(waiter.result == EOWNERDEAD && elsewhere(trylock, &pair.mutex) == 0);
    return pthread_cond_destroy(&pair.condition) + pthread_mutex_destroy(&pair.mutex);
}

static int mutex_inheriting(void) {
    struct timespec end = after(CLOCK_REALTIME, 5000000);
    struct pair pair = {.condition = PTHREAD_COND_INITIALIZER};
    make(&pair.mutex, PTHREAD_MUTEX_ERRORCHECK, 0, 0, PTHREAD_PRIO_INHERIT);
    MUST(pthread_mutex_lock(&pair.mutex) == 0 && pthread_mutex_lock(&pair.mutex) == EDEADLK);
    MUST(pthread_cond_timedwait(&pair.condition, &pair.mutex, &end) == ETIMEDOUT);
    MUST(elsewhere(trylock, &pair.mutex) == EBUSY && pthread_mutex_unlock(&pair.mutex) == 0);
    return mutex_of(&pair.mutex);
}

static int condition_wakes(void) {
    struct pair pair = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    struct timespec wrong = {.tv_sec = 1, .tv_nsec = -1}, past = {.tv_sec = -1};
    /* A signal for nobody is not remembered. */
    MUST(pthread_cond_signal(&pair.condition) == 0 && pthread_mutex_lock(&pair.mutex) == 0);
    for (int i = 0; i < 2; i++) {
        struct timespec end = after(clocks[i], 3000000);
        int result;
        while ((result = pthread_cond_clockwait(&pair.condition, &pair.mutex, clocks[i], &end)) == 0)
            ;
        MUST(result == ETIMEDOUT && is_over(clocks[i], end));
        MUST(elsewhere(trylock, &pair.mutex) == EBUSY);
        MUST(pthread_cond_clockwait(&pair.condition, &pair.mutex, clocks[i], &wrong) == EINVAL);
    }
    MUST(pthread_cond_timedwait(&pair.condition, &pair.mutex, &wrong) == EINVAL);
    MUST(pthread_cond_timedwait(&pair.condition, &pair.mutex, &past) == ETIMEDOUT);
    past = after(CLOCK_REALTIME, 1000);
    MUST(pthread_cond_clockwait(&pair.condition, &pair.mutex, CLOCK_THREAD_CPUTIME_ID, &past) ==
         EINVAL);
    MUST(elsewhere(trylock, &pair.mutex) == EBUSY && pthread_mutex_unlock(&pair.mutex) == 0);
    return pthread_cond_destroy(&pair.condition) + mutex_of(&pair.mutex);
}

static int condition_clock(void) {
    struct pair pair = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pair.condition, &attributes);
    struct timespec end = after(CLOCK_MONOTONIC, 3000000);
    int result;
    pthread_mutex_lock(&pair.mutex);
    while ((result = pthread_cond_timedwait(&pair.condition, &pair.mutex, &end)) == 0)
        ;
    MUST(result == ETIMEDOUT && is_over(CLOCK_MONOTONIC, end));
    MUST(pthread_mutex_unlock(&pair.mutex) == 0);
    return pthread_cond_destroy(&pair.condition);
}

static int condition_of_no_owner(void) {
    struct pair pair = {.condition = PTHREAD_COND_INITIALIZER};
    kind(&pair.mutex, PTHREAD_MUTEX_ERRORCHECK);
    MUST(pthread_cond_wait(&pair.condition, &pair.mutex) == EPERM);
    return pthread_cond_destroy(&pair.condition);
}

static int count_down(void *data) {
    struct pair *pair = data;
    pthread_mutex_lock(&pair->mutex);
    pair->number++;
    while (pair->number < 100)
        pthread_cond_wait(&pair->condition, &pair->mutex);
    pair->number++;
    pthread_mutex_unlock(&pair->mutex);
    return 0;
}

/* All are woken; whoever destroys and overwrites it at once disturbs nobody. */
static int condition_broadcast(void) {
    for (int round = 0; round < 50; round++) {
        struct pair pair = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
        struct call waiters[8];
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) {
            waiters[i] = (struct call){count_down, &pair, -1};
            pthread_create(&threads[i], 0, call, &waiters[i]);
        }
        for (int waiting = 0; waiting < 8; sched_yield()) {
            pthread_mutex_lock(&pair.mutex);
            waiting = pair.number;
            if (waiting == 8) {
                pair.number = 100;
                pthread_cond_broadcast(&pair.condition);
            }
            pthread_mutex_unlock(&pair.mutex);
        }
        MUST(pthread_cond_destroy(&pair.condition) == 0);
        memset(&pair.condition, 0, sizeof pair.condition);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], 0);
        MUST(pair.number == 108);
    }
    return 0;
}

static int ping(void *data) {
    struct pair *pair = data;
    pthread_mutex_lock(&pair->mutex);
    while (pair->number < 2000) {
        if (pair->number % 2 == 1) {
            pair->number++;
            pthread_cond_signal(&pair->condition);
        } else {
            pthread_cond_wait(&pair->condition, &pair->mutex);
        }
    }
    pthread_mutex_unlock(&pair->mutex);
    return 0;
}

static int condition_loses_nothing(void) {
    static struct pair pair = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct call other = {ping, &pair, -1};
    pthread_t thread;
    kind(&pair.mutex, PTHREAD_MUTEX_RECURSIVE);
    pthread_create(&thread, 0, call, &other);
    pthread_mutex_lock(&pair.mutex);
    while (pair.number < 2000) {
        if (pair.number % 2 == 0) {
            pair.number++;
            pthread_cond_signal(&pair.condition);
        } else {
            pthread_cond_wait(&pair.condition, &pair.mutex);
        }
    }
    pthread_cond_signal(&pair.condition);
    pthread_mutex_unlock(&pair.mutex);
    pthread_join(thread, 0);
    return pair.number != 2000;
}

static void clean_up(void *data) {
    struct pair *pair = data;
    /* The mutex is taken when a handler runs. */
    pair->number = elsewhere(trylock, &pair->mutex);
    pthread_mutex_unlock(&pair->mutex);
}

static void *wait_for_ever(void *data) {
    struct pair *pair = data;
    pthread_mutex_lock(&pair->mutex);
    pair->number = 1;
    pthread_cleanup_push(clean_up, pair);
    for (;;)
        pthread_cond_wait(&pair->condition, &pair->mutex);
    pthread_cleanup_pop(0);
    return 0;
}

static int condition_cancelled(void) {
    struct pair pair = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    pthread_t thread;
    void *result;
    pthread_create(&thread, 0, wait_for_ever, &pair);
    for (int waits = 0; !waits; pause_ms(1)) {
        pthread_mutex_lock(&pair.mutex);
        waits = pair.number;
        pthread_mutex_unlock(&pair.mutex);
    }
    pthread_cancel(thread);
    pthread_join(thread, &result);
    MUST(result == PTHREAD_CANCELED && pair.number == EBUSY);
    return pthread_cond_destroy(&pair.condition) + mutex_of(&pair.mutex);
}

/* Waiting for a mutex is no place to be cancelled at. */
static int lock_and_say(void *data) {
    struct pair *pair = data;
    pthread_mutex_lock(&pair->mutex);
    pair->number = 7;
    pthread_mutex_unlock(&pair->mutex);
    return 0;
}

static int mutex_is_not_cancelled(void) {
    struct pair pair = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct call other = {lock_and_say, &pair, -1};
    pthread_t thread;
    pthread_mutex_lock(&pair.mutex);
    pthread_create(&thread, 0, call, &other);
    pthread_cancel(thread);
    pause_ms(5);
    pthread_mutex_unlock(&pair.mutex);
    pthread_join(thread, 0);
    MUST(pair.number == 7);
    return mutex_of(&pair.mutex);
}

static int handled;

static void handle(int signal) {
    (void)signal;
    handled++;
}

static int signalled_waiter(void *mutex) {
    int result = pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
    return result;
}

/* A signal ends no wait for a mutex. */
static int mutex_goes_on_after_a_signal(void) {
    struct sigaction action = {.sa_handler = handle};
    pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    struct call waiter = {signalled_waiter, &one, -1};
    pthread_t thread;
    sigaction(SIGUSR1, &action, 0);
    pthread_mutex_lock(&one);
    pthread_create(&thread, 0, call, &waiter);
    while (handled < 3) {
        pthread_kill(thread, SIGUSR1);
        pause_ms(2);
    }
    MUST(waiter.result == -1);
    pthread_mutex_unlock(&one);
    pthread_join(thread, 0);
    MUST(waiter.result == 0);
    return mutex_of(&one);
}

int main(void) {
    static const struct check checks[] = {
        {"mutex, normal", mutex_normal},
        {"mutex, adaptive", mutex_adaptive},
        {"mutex, recursive", mutex_recursive},
        {"mutex, checked", mutex_checked},
        {"mutex, time limits", mutex_timed},
        {"mutex, taken before the limit", mutex_timed_gets_it},
        {"mutex, robust", mutex_robust},
        {"mutex, inheriting priority", mutex_inheriting},
        {"mutex, cancelled", mutex_is_not_cancelled},
        {"mutex, signals", mutex_goes_on_after_a_signal},
        {"condition, robust mutex", condition_robust},
        {"condition, time limits", condition_wakes},
        {"condition, clock of its own", condition_clock},
        {"condition, no owner", condition_of_no_owner},
        {"condition, broadcast and destroyed", condition_broadcast},
        {"condition, no signal lost", condition_loses_nothing},
        {"condition, cancelled", condition_cancelled},
    };
    return run(checks, sizeof checks / sizeof *checks);
}
