/* Threads that share one unit of a semaphore and do a little before and after. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static pthread_barrier_t start;
static sem_t turn;
static long counter;

static void *body(void *unused) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < 2500; i++) {
        sem_wait(&turn);
        counter++;
        sem_post(&turn);
        for (volatile int j = 0; j < 100; j++)
            ;
    }
    return unused;
}

int main(void) {
    pthread_t threads[8];
    sem_init(&turn, 0, 0);
    pthread_barrier_init(&start, 0, 9);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], 0, body, 0);
    /* Nobody is late: all wait for the first unit. */
    pthread_barrier_wait(&start);
    usleep(100000);
    sem_post(&turn);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], 0);
    printf("%ld\n", counter);
    return 0;
}
