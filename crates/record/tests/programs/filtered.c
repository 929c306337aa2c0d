/* Four threads wait for one mutex. Meanwhile the process permits only the system calls that libc
   needs for that, and is killed at any other. Argument: 0: by prctl, 1: by syscall. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(number)                                                                             \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

enum { ROUNDS = 20000, THREADS = 4 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static int count;

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        count++;
        if (i % 100 == 0)
            pthread_cond_broadcast(&bell);
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

int main(int arguments, char **argument) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_futex),
        ALLOW(SYS_clone), ALLOW(SYS_clone3), ALLOW(SYS_mmap), ALLOW(SYS_mprotect),
        ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_set_robust_list), ALLOW(SYS_rseq),
        ALLOW(SYS_madvise), ALLOW(SYS_munmap), ALLOW(SYS_brk),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS / 2; i++)
        pthread_create(&threads[i], 0, work, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    long failed = arguments > 1 && atoi(argument[1]) == 1
        ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter)
        : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    if (failed)
        _exit(1);
    for (int i = THREADS / 2; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    if (count == ROUNDS * THREADS)
        write(1, "done\n", 5);
    _exit(9);
}
