/* A mutex that is held until standard input ends, and three threads that wait for it. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void wait_here(void) {
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
}

static void *body(void *unused) {
    wait_here();
    return unused;
}

int main(void) {
    pthread_t threads[3];
    pthread_mutex_lock(&held);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, body, 0);
    while (getchar() != EOF)
        ;
    pthread_mutex_unlock(&held);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
