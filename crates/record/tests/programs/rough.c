/* What happens to programs in production: one mode each, by the first argument. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t many[100] = {[0 ... 99] = PTHREAD_MUTEX_INITIALIZER};
static sigjmp_buf jump;
static volatile int stop;

static void *once(void *argument) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void *table(void *argument) {
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(many + i);
        pthread_mutex_unlock(many + i);
    }
    return argument;
}

static void together(int count, void *(*work)(void *)) {
    pthread_t threads[64];
    for (int i = 0; i < count; i++)
        if (pthread_create(threads + i, NULL, work, NULL))
            exit(71);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void children(int count) {
    for (int i = 0; i < count; i++)
        if (!fork()) {
            /* A forked process has a file from its 17th acquisition. */
            for (int j = 0; j < 17; j++)
                once(NULL);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
}

/* Kills processes that sample, load BPF programs, or create files in memory, and becomes another
   program. */
static int filtered(char **words) {
    static const int calls[] = {SYS_perf_event_open, SYS_bpf, SYS_memfd_create, SYS_openat2};
    struct sock_filter code[2 * 4 + 2] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int at = 1;
    for (int i = 0; i < 4; i++) {
        code[at++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        code[at++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    code[at++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {at, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program))
        return 77;
    execvp(words[0], words);
    return 78;
}

/* Another user tries to take the pages of the recording away while this process adds some. */
static int truncated(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/budget", getenv("CONVOY_RECORD_DIR"));
    pid_t other = fork();
    if (!other) {
        if (setgid(54321) || setuid(54321))
            _exit(77);
        int taken = !truncate(path, 0) || open(path, O_RDWR) >= 0 || !unlink(path);
        _exit(taken);
    }
    int status;
    waitpid(other, &status, 0);
    together(50, table);
    return WEXITSTATUS(status);
}

static void handler(int number) {
    if (number == SIGALRM)
        siglongjmp(jump, 1);
}

/* Handlers of all signals on a small stack of their own, and jumps out of waits for a lock. */
static void *owner(void *argument) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_mutex_lock(&mutex);
    __atomic_store_n((int *) argument, 1, __ATOMIC_SEQ_CST);
    while (!stop)
        usleep(1000);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static int jumps(void) {
    static char stack[1 << 14];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    if (sigaltstack(&other, NULL))
        return 77;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    for (int number = 1; number < 32; number++)
        if (number != SIGCHLD)
            sigaction(number, &action, NULL);
    pthread_t thread;
    int owned = 0;
    pthread_create(&thread, NULL, owner, &owned);
    while (!__atomic_load_n(&owned, __ATOMIC_SEQ_CST))
        usleep(1000);
    struct itimerval soon = {.it_value = {0, 2000}};
    for (volatile int i = 0; i < 50; i++)
        if (!sigsetjmp(jump, 1)) {
            setitimer(ITIMER_REAL, &soon, NULL);
            pthread_mutex_lock(&mutex);
            return 72;
        }
    stop = 1;
    pthread_join(thread, NULL);
    once(NULL);
    return 5;
}

/* Locks for the first time of its thread in a handler. */
static void locks(int number) {
    once(NULL);
}

static void *interrupted(void *argument) {
    static __thread char stack[1 << 14];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    raise(SIGUSR1);
    return argument;
}

static void *storm(void *argument) {
    for (int i = 0; i < 50; i++) {
        once(NULL);
        pid_t child = vfork();
        if (!child) {
            execl("/bin/true", "true", NULL);
            _exit(73);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status)
            exit(74);
    }
    return argument;
}

/* Fills the directory, in which the recording is, up and begins threads before and afterwards. */
static int fills(const char *path) {
    static char block[1 << 16];
    together(10, table);
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    memset(block, 1, sizeof block);
    for (size_t size = sizeof block; size; size /= 2)
        while (write(file, block, size) > 0)
            ;
    together(50, table);
    children(20);
    unlink(path);
    return 6;
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "";
    if (!strcmp(mode, "filtered"))
        return filtered(words + 2);
    if (!strcmp(mode, "truncated"))
        return truncated();
    if (!strcmp(mode, "jumps"))
        return jumps();
    if (!strcmp(mode, "handlers")) {
        struct sigaction action = {.sa_handler = locks, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, NULL);
        together(50, interrupted);
        return 0;
    }
    if (!strcmp(mode, "storm")) {
        together(4, storm);
        return 0;
    }
    if (!strcmp(mode, "fills"))
        return fills(words[2]);
    if (!strcmp(mode, "children")) {
        children(300);
        return 0;
    }
    if (!strcmp(mode, "threads")) {
        for (int i = atoi(words[2]); i > 0; i -= 50)
            together(50, once);
        return 0;
    }
    if (!strcmp(mode, "twice")) {
        /* A daemon as of old: two forks, and no descriptor stays. */
        if (fork())
            return 3;
        setsid();
        if (fork())
            _exit(0);
        syscall(SYS_close_range, 0, ~0u, 0);
        together(20, table);
        return 0;
    }
    if (!strcmp(mode, "relay")) {
        /* A daemon that hands over to a successor each 10 ms, for longer than any grace. */
        if (fork())
            return 3;
        setsid();
        for (int i = 0; i < 25; i++) {
            usleep(10000);
            if (fork())
                _exit(0);
            setsid();
        }
        together(20, table);
        return 0;
    }
    return 66;
}
