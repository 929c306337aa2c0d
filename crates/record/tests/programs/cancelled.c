/* A thread is cancelled while it waits for a semaphore, another one while it waits on a condition
   variable; then one waits for each of them alone. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static sem_t gate;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static int rung;

static void *passes(void *unused) {
    sem_wait(&gate);
    return unused;
}

static void leave(void *unused) {
    (void)unused;
    pthread_mutex_unlock(&mutex);
}

static void *hears(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(leave, 0);
    while (!rung)
        pthread_cond_wait(&bell, &mutex);
    pthread_cleanup_pop(1);
    return unused;
}

int main(void) {
    void *(*waits[])(void *) = {passes, hears};
    sem_init(&gate, 0, 0);
    for (int i = 0; i < 2; i++) {
        pthread_t first, second;
        void *result;
        pthread_create(&first, 0, waits[i], 0);
        usleep(50000);
        pthread_cancel(first);
        pthread_join(first, &result);
        printf("%d ", result == PTHREAD_CANCELED);
        pthread_create(&second, 0, waits[i], 0);
        usleep(50000);
        pthread_mutex_lock(&mutex);
        rung = i;
        pthread_mutex_unlock(&mutex);
        sem_post(&gate);
        pthread_cond_signal(&bell);
        pthread_join(second, 0);
    }
    puts("done");
    return 0;
}
