/* Many threads that work on many locks from several places: THREADS LOCKS SECONDS [PAUSE_MS]. Locks
 * are chosen at random, one in a hundred acquisitions is of a few hot ones, and a thread sleeps
 * after a hundred of them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* In a variable, so that their names differ. */
static pthread_mutex_t locks[100000];
static long lock_count;
static long pause_ms = 20;
static volatile double end;
static volatile long guarded;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void section(pthread_mutex_t *lock, int work)
{
    pthread_mutex_lock(lock);
    for (int i = 0; i < work; i++)
        guarded++;
    pthread_mutex_unlock(lock);
}

#define PLACE(n) \
    static __attribute__((noinline)) void place_##n(pthread_mutex_t *lock) \
    { \
        section(lock, 10 * n); \
        __asm__ volatile("" ::: "memory"); \
    }
PLACE(1) PLACE(2) PLACE(3) PLACE(4) PLACE(5) PLACE(6) PLACE(7) PLACE(8)
static void (*const places[])(pthread_mutex_t *) = {
    place_1, place_2, place_3, place_4, place_5, place_6, place_7, place_8,
};

static void *work(void *own)
{
    unsigned seed = (unsigned)(long)own;
    const struct timespec pause = { pause_ms / 1000, pause_ms % 1000 * 1000000 };
    while (now() < end) {
        for (int i = 0; i < 100; i++) {
            long hot = rand_r(&seed) % 100 == 0;
            long lock = rand_r(&seed) % (hot ? 4 : lock_count);
            places[rand_r(&seed) % 8](&locks[lock]);
        }
        nanosleep(&pause, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        return 2;
    if (argc == 5)
        pause_ms = atol(argv[4]);
    long threads = atol(argv[1]);
    lock_count = atol(argv[2]);
    if (lock_count > (long)(sizeof locks / sizeof *locks))
        return 2;
    pthread_t *all = calloc(threads, sizeof *all);
    end = now() + atof(argv[3]);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, work, (void *)(i + 1)))
            return 1;
    for (long i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    puts("done");
    return 0;
}
