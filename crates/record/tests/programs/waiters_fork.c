/* A fork while threads wait for a mutex, or with an argument for a semaphore of one unit: in the
   child they are gone, and the lock works on; in a child of the child as well. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 8
#define TURNS 2000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;
static int entered, is_semaphore;

static void take(void) {
    if (is_semaphore)
        sem_wait(&semaphore);
    else
        pthread_mutex_lock(&mutex);
}

static void give(void) {
    if (is_semaphore)
        sem_post(&semaphore);
    else
        pthread_mutex_unlock(&mutex);
}

static void *turns(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        take();
        entered++;
        give();
    }
    return unused;
}

static int all_take_turns(pthread_t *threads, int count) {
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], 0);
    return entered;
}

/* The owner gives it back, and four threads take turns. */
static int works_on(void) {
    pthread_t threads[4];
    give();
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, turns, 0);
    return all_take_turns(threads, 4) == 4 * TURNS;
}

int main(int words, char **word) {
    (void)word;
    pthread_t threads[WAITERS];
    struct timespec while_they_queue = {.tv_nsec = 50000000};
    is_semaphore = words > 1;
    sem_init(&semaphore, 0, 1);
    take();
    for (int i = 0; i < WAITERS; i++)
        pthread_create(&threads[i], 0, turns, 0);
    nanosleep(&while_they_queue, 0);
    pid_t child = fork();
    if (child == 0) {
        int status = 0;
        pid_t grandchild = fork();
        if (grandchild > 0)
            waitpid(grandchild, &status, 0);
        _exit(works_on() && status == 0 ? 0 : 1);
    }
    give();
    int status, sum = all_take_turns(threads, WAITERS);
    waitpid(child, &status, 0);
    printf("%d %d\n", sum, status);
    return 0;
}
