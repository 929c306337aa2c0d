/* Threads that take turns by futex(2) itself, past pthread. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int gate;
static long turns;

static void enter(void) {
    int free = 0;
    if (atomic_compare_exchange_strong(&gate, &free, 1))
        return;
    while (atomic_exchange(&gate, 2) != 0)
        syscall(SYS_futex, &gate, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void leave(void) {
    if (atomic_exchange(&gate, 0) == 2)
        syscall(SYS_futex, &gate, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *body(void *unused) {
    for (int turn = 0; turn < 100; turn++) {
        enter();
        turns++;
        usleep(500);
        leave();
    }
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, body, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", turns);
}
