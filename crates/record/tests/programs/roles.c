/* The same primitives as locks and as signals: who gives them up differs. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

enum { TURNS = 60, THREADS = 4 };

/* One unit that each thread takes and gives back; two units for four threads. */
static sem_t section, pool;
/* Two units that two threads pass to and fro. */
static sem_t there, back;
/* A flag that is taken and given up under a mutex. */
static pthread_mutex_t flag_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flag_free = PTHREAD_COND_INITIALIZER;
static int flag;
/* A queue of numbers, of which both sides wait for one condition. */
static pthread_mutex_t line_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t line_changed = PTHREAD_COND_INITIALIZER;
static int line;

static void down(sem_t *one) {
    while (sem_wait(one))
        ;
}

static void flag_take(void) {
    pthread_mutex_lock(&flag_mutex);
    while (flag)
        pthread_cond_wait(&flag_free, &flag_mutex);
    flag = 1;
    pthread_mutex_unlock(&flag_mutex);
}

static void flag_give(void) {
    pthread_mutex_lock(&flag_mutex);
    flag = 0;
    pthread_cond_signal(&flag_free);
    pthread_mutex_unlock(&flag_mutex);
}

static void *owner(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        down(&section);
        usleep(300);
        sem_post(&section);
        down(&pool);
        usleep(300);
        sem_post(&pool);
        flag_take();
        usleep(1000);
        flag_give();
    }
    return unused;
}

static void *echo(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        down(&there);
        usleep(200);
        sem_post(&back);
    }
    return unused;
}

static void *taker(void *unused) {
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&line_mutex);
        while (!line)
            pthread_cond_wait(&line_changed, &line_mutex);
        line--;
        pthread_cond_broadcast(&line_changed);
        pthread_mutex_unlock(&line_mutex);
    }
    return unused;
}

int main(void) {
    pthread_t all[THREADS + 2];
    sem_init(&section, 0, 1);
    sem_init(&pool, 0, 2);
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&all[i], 0, owner, 0);
    pthread_create(&all[THREADS], 0, echo, 0);
    pthread_create(&all[THREADS + 1], 0, taker, 0);
    for (int i = 0; i < TURNS; i++) {
        usleep(200);
        sem_post(&there);
        down(&back);
        pthread_mutex_lock(&line_mutex);
        while (line)
            pthread_cond_wait(&line_changed, &line_mutex);
        line++;
        pthread_cond_broadcast(&line_changed);
        pthread_mutex_unlock(&line_mutex);
    }
    for (int i = 0; i < THREADS + 2; i++)
        pthread_join(all[i], 0);
    puts("done");
    return 0;
}
