/* Four threads wait for one mutex through a function that takes it for others, two in each of two
   callers, while a fifth, the main thread, has it. */
#include <pthread.h>
#include <time.h>

static pthread_mutex_t only = PTHREAD_MUTEX_INITIALIZER;
static int asking;

__attribute__((noinline)) int any_mutex_lock(pthread_mutex_t *mutex) {
    __atomic_fetch_add(&asking, 1, __ATOMIC_SEQ_CST);
    int result = pthread_mutex_lock(mutex);
    __asm__ volatile("" ::: "memory");
    return result;
}

__attribute__((noinline)) static void first(void) {
    any_mutex_lock(&only);
    pthread_mutex_unlock(&only);
}

__attribute__((noinline)) static void second(void) {
    any_mutex_lock(&only);
    pthread_mutex_unlock(&only);
}

static void *body(void *is_first) {
    if (is_first)
        first();
    else
        second();
    return 0;
}

int main(void) {
    pthread_t threads[4];
    struct timespec while_they_queue = {.tv_nsec = 50000000};
    any_mutex_lock(&only);
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, body, (void *)(i % 2));
    while (__atomic_load_n(&asking, __ATOMIC_SEQ_CST) < 5)
        ;
    nanosleep(&while_they_queue, 0);
    pthread_mutex_unlock(&only);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return 0;
}
