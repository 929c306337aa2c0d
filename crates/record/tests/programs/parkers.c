/* A lock whose waiters sleep each on a condition of its own, as runtimes build them: the lock is
   known by who takes it. And a wait for something else on the same conditions. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define THREADS 4

static _Thread_local struct parker {
    pthread_mutex_t mutex;
    pthread_cond_t told;
    int token;
    struct parker *next;
} self = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static struct park_mutex {
    int guard, held;
    struct parker *first;
} book;
static volatile unsigned sum;
static struct parker *idle;

__attribute__((noinline)) static void park(void)
{
    pthread_mutex_lock(&self.mutex);
    while (!self.token)
        pthread_cond_wait(&self.told, &self.mutex);
    self.token = 0;
    pthread_mutex_unlock(&self.mutex);
    __asm__ volatile("");
}

static void unpark(struct parker *one)
{
    pthread_mutex_lock(&one->mutex);
    one->token = 1;
    pthread_cond_signal(&one->told);
    pthread_mutex_unlock(&one->mutex);
}

__attribute__((noinline)) static void park_mutex_lock(struct park_mutex *mutex)
{
    for (;;) {
        while (__atomic_exchange_n(&mutex->guard, 1, __ATOMIC_ACQUIRE))
            ;
        if (!mutex->held) {
            mutex->held = 1;
            __atomic_store_n(&mutex->guard, 0, __ATOMIC_RELEASE);
            return;
        }
        self.next = mutex->first;
        mutex->first = &self;
        __atomic_store_n(&mutex->guard, 0, __ATOMIC_RELEASE);
        park();
        __asm__ volatile("");
    }
}

static void park_mutex_unlock(struct park_mutex *mutex)
{
    while (__atomic_exchange_n(&mutex->guard, 1, __ATOMIC_ACQUIRE))
        ;
    struct parker *one = mutex->first;
    mutex->first = one ? one->next : 0;
    mutex->held = 0;
    __atomic_store_n(&mutex->guard, 0, __ATOMIC_RELEASE);
    if (one)
        unpark(one);
}

__attribute__((noinline)) static void enter(int number)
{
    struct timespec little = {0, 200000};
    park_mutex_lock(&book);
    sum += number;
    nanosleep(&little, 0);
    park_mutex_unlock(&book);
}

__attribute__((noinline)) static void wait_for_work(void)
{
    __atomic_store_n(&idle, &self, __ATOMIC_RELEASE);
    park();
    __asm__ volatile("");
}

static void *works(void *argument)
{
    for (int turn = 0; turn < 200; turn++)
        enter(turn);
    return argument;
}

static void *idles(void *argument)
{
    for (int turn = 0; turn < 20; turn++)
        wait_for_work();
    return argument;
}

int main(void)
{
    struct timespec little = {0, 5000000};
    pthread_t threads[THREADS], other;
    for (int index = 0; index < THREADS; index++)
        pthread_create(&threads[index], 0, works, 0);
    pthread_create(&other, 0, idles, 0);
    for (int turn = 0; turn < 20; turn++) {
        struct parker *one;
        nanosleep(&little, 0);
        while (!(one = __atomic_exchange_n(&idle, 0, __ATOMIC_ACQ_REL)))
            nanosleep(&little, 0);
        unpark(one);
    }
    for (int index = 0; index < THREADS; index++)
        pthread_join(threads[index], 0);
    pthread_join(other, 0);
    printf("%u\n", sum);
    return 0;
}
