/* A fork while threads wait for a mutex: in the child they are gone, and the mutex works on. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 8
#define TURNS 2000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int entered;

static void *turns(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&mutex);
        entered++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static int all_take_turns(pthread_t *threads, int count) {
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], 0);
    return entered;
}

int main(void) {
    pthread_t threads[WAITERS];
    struct timespec while_they_queue = {.tv_nsec = 50000000};
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < WAITERS; i++)
        pthread_create(&threads[i], 0, turns, 0);
    nanosleep(&while_they_queue, 0);
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_unlock(&mutex);
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], 0, turns, 0);
        _exit(all_take_turns(threads, 4) == 4 * TURNS ? 0 : 1);
    }
    pthread_mutex_unlock(&mutex);
    int status, sum = all_take_turns(threads, WAITERS);
    waitpid(child, &status, 0);
    printf("%d %d\n", sum, status);
    return 0;
}
