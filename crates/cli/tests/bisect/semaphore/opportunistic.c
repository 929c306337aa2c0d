/* The releaser frees the semaphore and wakes a waiter; the first thread that asks acquires it. */
#include "sem.h"

void sem_start(struct sem *sem)
{
    pthread_mutex_init(&sem->lock, NULL);
    sem->count = 1;
    sem->head = NULL;
    sem->tail = &sem->head;
}

void sem_down(struct sem *sem)
{
    struct waiter self = { .turn = PTHREAD_COND_INITIALIZER };

    pthread_mutex_lock(&sem->lock);
    while (sem->count == 0) {
        self.next = NULL;
        self.woken = 0;
        *sem->tail = &self;
        sem->tail = &self.next;
        while (!self.woken)
            pthread_cond_wait(&self.turn, &sem->lock);
    }
    sem->count--;
    pthread_mutex_unlock(&sem->lock);
}

void sem_up(struct sem *sem)
{
    struct waiter *first;

    pthread_mutex_lock(&sem->lock);
    sem->count++;
    first = sem->head;
    if (first) {
        sem->head = first->next;
        if (!sem->head)
            sem->tail = &sem->head;
        first->woken = 1;
        pthread_cond_signal(&first->turn);
    }
    pthread_mutex_unlock(&sem->lock);
}

int sem_waiters(struct sem *sem)
{
    int waiters = 0;

    pthread_mutex_lock(&sem->lock);
    for (struct waiter *waiter = sem->head; waiter; waiter = waiter->next)
        waiters++;
    pthread_mutex_unlock(&sem->lock);
    return waiters;
}
