/* Threads that take one mutex, sleep in it every time, and count. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static long counter;

__attribute__((noinline)) static void use_cache(void) {
    pthread_mutex_lock(&cache_lock);
    counter++;
    usleep(500);
    pthread_mutex_unlock(&cache_lock);
}

static void *body(void *unused) {
    for (int i = 0; i < 40; i++)
        use_cache();
    return unused;
}

int main(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], 0, body, 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], 0);
    printf("%ld\n", counter);
    return 0;
}
