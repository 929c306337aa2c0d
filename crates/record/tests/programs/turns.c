/* Threads that share one unit of a semaphore and do a little before and after: how many, and how
   many turns each takes; 8 and 2500 if it is not said. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t start;
static sem_t turn;
static long counter;
static int count = 8, turns = 2500;

static void *body(void *unused) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < turns; i++) {
        sem_wait(&turn);
        counter++;
        sem_post(&turn);
        for (volatile int j = 0; j < 100; j++)
            ;
    }
    return unused;
}

int main(int words, char **word) {
    if (words > 2) {
        count = atoi(word[1]);
        turns = atoi(word[2]);
    }
    pthread_t *threads = calloc(count, sizeof *threads);
    sem_init(&turn, 0, 0);
    pthread_barrier_init(&start, 0, count + 1);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], 0, body, 0);
    /* Nobody is late: all wait for the first unit. */
    pthread_barrier_wait(&start);
    usleep(100000);
    sem_post(&turn);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], 0);
    printf("%ld\n", counter);
    return 0;
}
