// Two handlers reach one lock through the same function, so that only the calls that led there tell
// them apart.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static volatile int handled;

__attribute__((noinline)) static void update(void) {
    pthread_mutex_lock(&table);
    usleep(500);
    pthread_mutex_unlock(&table);
}

__attribute__((noinline)) static void read_row(void) {
    update();
    handled++;
}

__attribute__((noinline)) static void write_row(void) {
    update();
    handled++;
}

static void *reader(void *unused) {
    for (int row = 0; row < 60; row++) read_row();
    return unused;
}

static void *writer(void *unused) {
    for (int row = 0; row < 60; row++) write_row();
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int at = 0; at < 4; at++)
        pthread_create(&threads[at], NULL, at % 2 ? reader : writer, NULL);
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
    return 0;
}
