/* Checks of what POSIX and C11 promise of locks: prints those that do not hold, and how many there
   are. All hold under plain glibc. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)
#define NS 1000000000L

static struct timespec after(clockid_t clock, long ns) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += (time.tv_nsec + ns) / NS;
    time.tv_nsec = (time.tv_nsec + ns) % NS;
    return time;
}

static int is_over(clockid_t clock, struct timespec end) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
}

static void pause_ms(long ms) {
    struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, 0);
}

/* What another thread gets from a function. */
struct call {
    int (*function)(void *);
    void *argument;
    int result;
};

static void *call(void *data) {
    struct call *call = data;
    call->result = call->function(call->argument);
    return 0;
}

static int elsewhere(int (*function)(void *), void *argument) {
    struct call one = {function, argument, 0};
    pthread_t thread;
    pthread_create(&thread, 0, call, &one);
    pthread_join(thread, 0);
    return one.result;
}

static int trylock(void *mutex) {
    int result = pthread_mutex_trylock(mutex);
    if (result == 0)
        pthread_mutex_unlock(mutex);
    return result;
}

static int unlock(void *mutex) {
    return pthread_mutex_unlock(mutex);
}

static int lock(void *mutex) {
    return pthread_mutex_lock(mutex);
}

static void make(pthread_mutex_t *mutex, int kind, int robust, int shared, int protocol) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kind);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutexattr_setpshared(&attributes, shared);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void kind(pthread_mutex_t *mutex, int kind) {
    make(mutex, kind, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE, PTHREAD_PRIO_NONE);
}

/* A check that gives 0, or the line that does not hold. */
struct check {
    const char *name;
    int (*function)(void);
};

static int run(const struct check *checks, int count) {
    int failures = 0;
    alarm(120);
    for (int i = 0; i < count; i++) {
        int line = checks[i].function();
        if (line != 0) {
            printf("failed: %s, line %d\n", checks[i].name, line);
            failures++;
        }
    }
    printf("failures %d of %d\n", failures, count);
    return failures != 0;
}
