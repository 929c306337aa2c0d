/*
 * Locks for threads of one process that are fast and starve none. Link with libconvoy_capi.a or
 * -lconvoy_capi.
 *
 * A lock is initialised by its macro (CONVOY_MUTEX_INIT, ...) or by its function `_init`, and must
 * not move while any thread uses it. `_destroy` frees the memory of its queue; a lock that was
 * never contended has no queue. Times are nanoseconds to wait at most. Misuse is not detected
 * unless a function says so.
 */
#ifndef CONVOY_SYNC_H
#define CONVOY_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One owner. */
typedef struct {
    uint32_t word, queue;
} convoy_mutex_t;

#define CONVOY_MUTEX_INIT { 8, 0 }

void convoy_mutex_init(convoy_mutex_t *mutex);
void convoy_mutex_destroy(convoy_mutex_t *mutex);
void convoy_mutex_lock(const convoy_mutex_t *mutex);
bool convoy_mutex_trylock(const convoy_mutex_t *mutex);
bool convoy_mutex_timedlock(const convoy_mutex_t *mutex, uint64_t ns);
void convoy_mutex_unlock(const convoy_mutex_t *mutex);

/* A number of owners, fewer than 2^29. */
typedef struct {
    uint32_t word, queue;
} convoy_sem_t;

#define CONVOY_SEM_INIT(units) { 8 * (units), 0 }

void convoy_sem_init(convoy_sem_t *sem, uint32_t units);
void convoy_sem_destroy(convoy_sem_t *sem);
void convoy_sem_wait(const convoy_sem_t *sem);
bool convoy_sem_trywait(const convoy_sem_t *sem);
bool convoy_sem_timedwait(const convoy_sem_t *sem, uint64_t ns);
void convoy_sem_post(const convoy_sem_t *sem);
/* Free units; a snapshot. */
uint32_t convoy_sem_value(const convoy_sem_t *sem);

/* Many readers or one writer; neither kind starves the other. A reader must not take it again
 * while it reads: a writer may wait between the two. */
typedef struct {
    uint32_t word, door[2];
} convoy_rwlock_t;

#define CONVOY_RWLOCK_INIT { 0, { 8, 0 } }

void convoy_rwlock_init(convoy_rwlock_t *lock);
void convoy_rwlock_destroy(convoy_rwlock_t *lock);
void convoy_rwlock_rdlock(const convoy_rwlock_t *lock);
bool convoy_rwlock_tryrdlock(const convoy_rwlock_t *lock);
bool convoy_rwlock_timedrdlock(const convoy_rwlock_t *lock, uint64_t ns);
void convoy_rwlock_rdunlock(const convoy_rwlock_t *lock);
void convoy_rwlock_wrlock(const convoy_rwlock_t *lock);
bool convoy_rwlock_trywrlock(const convoy_rwlock_t *lock);
bool convoy_rwlock_timedwrlock(const convoy_rwlock_t *lock, uint64_t ns);
void convoy_rwlock_wrunlock(const convoy_rwlock_t *lock);

/* Waiting, with a mutex held, for what another owner does. All that wait at a time use the same
 * mutex, or the program aborts. A wait may end without a reason: look again. */
typedef struct {
    uint32_t inner;
    const void *lock, *first, *last;
} convoy_cond_t;

#define CONVOY_COND_INIT { 0, 0, 0, 0 }

void convoy_cond_init(convoy_cond_t *cond);
void convoy_cond_wait(const convoy_cond_t *cond, const convoy_mutex_t *mutex);
/* False if the time is over; the mutex is held then, too. */
bool convoy_cond_timedwait(const convoy_cond_t *cond, const convoy_mutex_t *mutex, uint64_t ns);
/* Whether a thread waited, and how many. */
bool convoy_cond_signal(const convoy_cond_t *cond);
uintptr_t convoy_cond_broadcast(const convoy_cond_t *cond);

/* One-time initialisation. From inside of itself it sleeps for good. */
typedef struct {
    uint32_t word;
} convoy_once_t;

#define CONVOY_ONCE_INIT { 0 }

void convoy_once(const convoy_once_t *once, void (*body)(void *), void *argument);

/* A point that a number of threads pass together, 1 to 65535. */
typedef struct {
    uint32_t word, places;
} convoy_barrier_t;

#define CONVOY_BARRIER_INIT(places) { 0, places }

/* True for the last that came. */
bool convoy_barrier_wait(const convoy_barrier_t *barrier);

#ifdef __cplusplus
}
#endif

#endif
