/* A library with a lock: its public function, one inside, and one that acquires the lock. */
#include <pthread.h>
#include <unistd.h>

static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static volatile long books;

__attribute__((noinline, visibility("hidden"))) int shelf_lock(pthread_rwlock_t *lock)
{
    int result = pthread_rwlock_wrlock(lock);
    __asm__ volatile("" ::: "memory");
    return result == 0;
}

__attribute__((noinline, visibility("hidden"))) void shelf_insert(void)
{
    shelf_lock(&shelf);
    books++;
    usleep(500);
    pthread_rwlock_unlock(&shelf);
}

void shelf_put(void)
{
    shelf_insert();
    __asm__ volatile("" ::: "memory");
}
