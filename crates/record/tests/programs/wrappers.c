/* Threads that wait for four locks: through two functions that pass their argument on, through one
   that does more, and inside a library. */
#include <pthread.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 20 };

void shelf_put(void);

static struct account {
    long sum;
    pthread_mutex_t lock;
} account = {0, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t book = PTHREAD_MUTEX_INITIALIZER;
static volatile long entries;

__attribute__((noinline)) static int seize(pthread_mutex_t *mutex)
{
    int result = pthread_mutex_lock(mutex);
    __asm__ volatile("" ::: "memory");
    return result;
}

__attribute__((noinline)) static void visit(struct account *one)
{
    seize(&one->lock);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void deposit(void)
{
    visit(&account);
    account.sum++;
    usleep(500);
    pthread_mutex_unlock(&account.lock);
}

__attribute__((noinline)) static void enter(void)
{
    pthread_mutex_lock(&book);
    entries++;
    usleep(500);
    pthread_mutex_unlock(&book);
}

__attribute__((noinline)) static void store(void)
{
    shelf_put();
    __asm__ volatile("" ::: "memory");
}

static void *work(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        deposit();
        enter();
        store();
    }
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    return 0;
}
