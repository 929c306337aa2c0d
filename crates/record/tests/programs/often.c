// Two threads that wait for each other often, and three that own a lock for long: some waits are
// frequent, the others are long. Prints how many waits of each kind were woken, and their seconds.
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static const double LENGTH_S = 2;

static atomic_int turn, gate;
static double end_s;
static pthread_mutex_t sums = PTHREAD_MUTEX_INITIALIZER;

struct waits {
    long count;
    double seconds;
} often, seldom;

// Not libc's function, which records the call.
static long futex(atomic_int *word, int operation, int value, struct timespec *most) {
    register long fourth __asm__("r10") = (long)most;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(202L), "D"(word), "S"((long)operation), "d"((long)value), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void rest(long ms) {
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, 0);
}

static void wait(atomic_int *word, int value, struct timespec *most, struct waits *waits) {
    double since_s = now_s();
    if (futex(word, FUTEX_WAIT_PRIVATE, value, most) == 0) {
        waits->count += 1;
        waits->seconds += now_s() - since_s;
    }
}

static void add(struct waits *sum, struct waits waits) {
    pthread_mutex_lock(&sums);
    sum->count += waits.count;
    sum->seconds += waits.seconds;
    pthread_mutex_unlock(&sums);
}

static void *exchange(void *number) {
    int own = number != 0;
    struct waits waits = {0, 0};
    while (now_s() < end_s) {
        int seen = turn;
        struct timespec most = {0, 20000000};
        if (seen != own) {
            wait(&turn, seen, &most, &waits);
        } else {
            turn = !own;
            futex(&turn, FUTEX_WAKE_PRIVATE, 1, 0);
        }
    }
    add(&often, waits);
    return 0;
}

static void *own(void *none) {
    struct waits waits = {0, 0};
    while (now_s() < end_s) {
        int is_free = 0;
        if (!atomic_compare_exchange_strong(&gate, &is_free, 1))
            while (atomic_exchange(&gate, 2))
                wait(&gate, 2, 0, &waits);
        rest(40);
        if (atomic_exchange(&gate, 0) == 2)
            futex(&gate, FUTEX_WAKE_PRIVATE, 1, 0);
        rest(10);
    }
    add(&seldom, waits);
    return none;
}

int main(void) {
    pthread_t threads[5];
    end_s = now_s() + LENGTH_S;
    for (int number = 0; number < 5; number++)
        pthread_create(&threads[number], 0, number < 2 ? exchange : own, (void *)(long)(number == 1));
    for (int number = 0; number < 5; number++)
        pthread_join(threads[number], 0);
    printf("%ld %f %ld %f\n", often.count, often.seconds, seldom.count, seldom.seconds);
    return 0;
}
