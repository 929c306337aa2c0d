/* Mutexes made and taken at several places. Prints what the object before libc marked each with:
   one in a variable, one taken first in `take_here`, one made in `make_queue`, one taken through
   two functions that only do so for others, and one that nobody names. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t journals[3];

__attribute__((noinline)) int queue_mutex_lock(pthread_mutex_t *mutex) {
    int result = pthread_mutex_lock(mutex);
    __asm__ volatile("" ::: "memory");
    return result;
}

__attribute__((noinline)) int any_mutex_lock(pthread_mutex_t *mutex) {
    int result = queue_mutex_lock(mutex);
    __asm__ volatile("" ::: "memory");
    return result;
}

__attribute__((noinline)) static void take_here(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
}

__attribute__((noinline)) static pthread_mutex_t *make_queue(void) {
    pthread_mutex_t *mutex = malloc(sizeof *mutex);
    pthread_mutex_init(mutex, 0);
    return mutex;
}

__attribute__((noinline)) static void find_in_cache(pthread_mutex_t *mutex) {
    any_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
}

__attribute__((noinline)) static void go_around(pthread_mutex_t *mutex) {
    any_mutex_lock(mutex);
    pthread_mutex_unlock(mutex);
}

static unsigned mark(pthread_mutex_t *mutex) {
    return ((unsigned *)mutex)[7] & 7;
}

int main(void) {
    pthread_mutex_t *all[6];
    for (int i = 0; i < 6; i++)
        all[i] = calloc(1, sizeof *all[i]);
    all[0] = &journals[1];
    all[2] = make_queue();
    for (int turn = 0; turn < 3; turn++) {
        pthread_mutex_lock(all[0]);
        pthread_mutex_unlock(all[0]);
        take_here(all[1]);
        go_around(all[2]);
        find_in_cache(all[3]);
        go_around(all[4]);
        pthread_mutex_lock(all[5]);
        pthread_mutex_unlock(all[5]);
    }
    for (int i = 0; i < 6; i++)
        printf("%u", mark(all[i]));
    for (int i = 0; i < 6; i++)
        printf(" %d", pthread_mutex_destroy(all[i]));
    puts("");
    return 0;
}
