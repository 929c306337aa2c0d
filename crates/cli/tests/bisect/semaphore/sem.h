/* A binary semaphore with a queue, on pthread primitives. */
#ifndef SEM_H
#define SEM_H

#include <pthread.h>

struct waiter {
    struct waiter *next;
    pthread_cond_t turn;
    int woken;
};

struct sem {
    pthread_mutex_t lock;
    int count;
    struct waiter *head;
    struct waiter **tail;
};

void sem_start(struct sem *sem);
void sem_down(struct sem *sem);
void sem_up(struct sem *sem);
int sem_waiters(struct sem *sem);

#endif
