// Two threads share a mutex. Each of PERCENT x 60 rounds takes it for some 1 us and works some 1 us
// outside: the time of the program is proportional to PERCENT, so that a slowdown can be planted.
// usage: work PERCENT
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long rounds;

static void work(void) {
    for (volatile int step = 0; step < 600; step++) {
    }
}

static void *thread(void *unused) {
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&lock);
        work();
        pthread_mutex_unlock(&lock);
        work();
    }
    return unused;
}

int main(int count, char **words) {
    pthread_t other;
    rounds = 60 * (count > 1 ? atol(words[1]) : 100);
    if (pthread_create(&other, NULL, thread, NULL) != 0) return 1;
    thread(NULL);
    return pthread_join(other, NULL);
}
