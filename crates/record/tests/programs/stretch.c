/* Threads that use a lock all the time, each at its own time, and all at once in one stretch. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define THREADS 4

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;

static void sleep_us(long us)
{
    struct timespec time = {0, us * 1000};
    nanosleep(&time, 0);
}

static void alone(long own)
{
    for (int turn = 0; turn < 25; turn++)
        for (int other = 0; other < THREADS; other++) {
            if (other == own) {
                pthread_mutex_lock(&gate);
                pthread_mutex_unlock(&gate);
            }
            sleep_us(1000);
        }
}

static void *body(void *number)
{
    alone((long)number);
    pthread_barrier_wait(&together);
    for (int turn = 0; turn < 10; turn++) {
        pthread_mutex_lock(&gate);
        sleep_us(1000);
        pthread_mutex_unlock(&gate);
    }
    pthread_barrier_wait(&together);
    alone((long)number);
    return 0;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, 0, THREADS);
    for (long index = 0; index < THREADS; index++)
        pthread_create(&threads[index], 0, body, (void *)index);
    for (int index = 0; index < THREADS; index++)
        pthread_join(threads[index], 0);
    puts("over");
    return 0;
}
