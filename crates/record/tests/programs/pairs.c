/* What a lock and an unlock of a mutex that nobody else wants cost, beside those of glibc itself:
   how many mutexes, and any second argument for a program with one thread. Prints nanoseconds of a
   pair by the names of pthread and by the functions of glibc, each the least of batches that
   alternate. Usually a second thread is alive: without one glibc uses no atomic instructions. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 20000, BATCHES = 400 };

typedef int function(pthread_mutex_t *);

static pthread_mutex_t *mutexes;
static unsigned count;

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double batch(function *lock, function *unlock) {
    unsigned at = 0;
    double begin = seconds();
    for (int i = 0; i < BATCH; i++) {
        lock(&mutexes[at]);
        unlock(&mutexes[at]);
        at = at + 1 == count ? 0 : at + 1;
    }
    return (seconds() - begin) / BATCH * 1e9;
}

int main(int words, char **word) {
    count = words > 1 ? atoi(word[1]) : 1;
    mutexes = calloc(count, sizeof *mutexes);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    function *lock = (function *)dlsym(libc, "pthread_mutex_lock");
    function *unlock = (function *)dlsym(libc, "pthread_mutex_unlock");
    function *volatile own_lock = pthread_mutex_lock;
    function *volatile own_unlock = pthread_mutex_unlock;
    pthread_t thread;
    if (words < 3)
        pthread_create(&thread, 0, sleeper, 0);
    double least[2] = {1e9, 1e9};
    for (int i = 0; i < BATCHES; i++) {
        double named = batch(own_lock, own_unlock), plain = batch(lock, unlock);
        least[0] = named < least[0] ? named : least[0];
        least[1] = plain < least[1] ? plain : least[1];
    }
    printf("%.2f %.2f\n", least[0], least[1]);
    return 0;
}
