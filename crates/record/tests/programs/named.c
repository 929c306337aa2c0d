/* Threads that wait for one lock, under names that the compiler is given. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t LOCK = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void FUNCTION(void)
{
    pthread_mutex_lock(&LOCK);
    usleep(2000);
    pthread_mutex_unlock(&LOCK);
}

static void *body(void *argument)
{
#ifdef NAME
    pthread_setname_np(pthread_self(), NAME);
#endif
    for (int i = 0; i < *(int *) argument; i++)
        FUNCTION();
    return 0;
}

int main(int count, char **words)
{
    int turns = count > 1 ? 2000 : 50;
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(threads + i, 0, body, &turns);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], 0);
    return 0;
}
