/* Forks, cancels, locks in a signal handler, has 5000 short threads, and ends by a signal. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t of_handler = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static volatile sig_atomic_t handled;

static void handler(int signal) {
    (void)signal;
    if (pthread_mutex_trylock(&of_handler) == 0) {
        handled++;
        pthread_mutex_unlock(&of_handler);
    }
}

static void *brief(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void give_up(void *unused) {
    (void)unused;
    pthread_mutex_unlock(&mutex);
}

static void *cancelled(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(give_up, 0);
    for (;;)
        pthread_cond_wait(&never, &mutex);
    pthread_cleanup_pop(1);
    return unused;
}

int main(int count, char **words) {
    pthread_t thread;
    signal(SIGALRM, handler);
    ualarm(1000, 1000);
    for (int i = 0; i < 5000; i++) {
        pthread_create(&thread, 0, brief, 0);
        pthread_join(thread, 0);
    }
    ualarm(0, 0);
    pthread_create(&thread, 0, cancelled, 0);
    usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, 0);
    if (fork() == 0) {
        for (int i = 0; i < 100; i++)
            brief(0);
        _exit(0);
    }
    wait(0);
    printf("handled %s\n", handled > 0 ? "some" : "none");
    fflush(stdout);
    if (count > 1 && strcmp(words[1], "exec") == 0)
        execl(words[0], words[0], "kill", (char *)0);
    raise(SIGKILL);
}
