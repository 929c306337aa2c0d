/* What programs do that a recorder must not disturb: one mode each, by the first argument. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <signal.h>
#include <errno.h>
#include <fcntl.h>
#include <dlfcn.h>
#include <sched.h>
#include <time.h>
#include <sys/wait.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <linux/audit.h>
#include <sys/stat.h>
static pthread_mutex_t mut = PTHREAD_MUTEX_INITIALIZER, mut2 = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cnd = PTHREAD_COND_INITIALIZER;
volatile long cnt;
volatile int stop;
#define L pthread_mutex_lock
#define U pthread_mutex_unlock
static void *worker(void *a)
{
    for (int i = 0; i < 20000; i++) {
        L(&mut);
        for (int k = 0; k < 50; k++)
            cnt++;
        U(&mut);
    }
    return 0;
}

static void work(int T)
{
    pthread_t t[64];
    int n = 0;
    for (int i = 0; i < T; i++)
        if (!pthread_create(t + n, 0, worker, 0))
            n++;
    for (int i = 0; i < n; i++)
        pthread_join(t[i], 0);
}

static int begun;
static void *forever(void *a)
{
    for (int i = 0; !stop; i++) {
        L(&mut);
        for (int k = 0; k < 50; k++)
            cnt++;
        U(&mut);
        if (i == 0)
            __sync_fetch_and_add(&begun, 1);
    }
    return 0;
}

static void bg(int T)
{
    pthread_t t;
    for (int i = 0; i < T; i++)
        pthread_create(&t, 0, forever, 0);
    do
        usleep(50000);
    while (__sync_fetch_and_add(&begun, 0) < T);
}

static pthread_barrier_t together;
static void *dl1(void *a)
{
    L(&mut);
    pthread_barrier_wait(&together);
    L(&mut2);
    return 0;
}

static int childf(void *a)
{
    work(2);
    return 7;
}

static void onsig(int s)
{
    cnt++;
}

static void *locker(void *a)
{
    L(a);
    U(a);
    return 0;
}

static pthread_key_t key;
static void dtor(void *p)
{
    L(&mut);
    cnt++;
    U(&mut);
    sched_yield();
}

static void *tls(void *a)
{
    pthread_setspecific(key, a);
    L(&mut);
    U(&mut);
    return 0;
}

static void *condw(void *a)
{
    L(&mut);
    pthread_cleanup_push((void (*)(void *)) pthread_mutex_unlock, &mut);
    for (;;)
        pthread_cond_wait(&cnd, &mut);
    pthread_cleanup_pop(1);
    return 0;
}

static void *tiny(void *a)
{
    L(&mut);
    cnt++;
    U(&mut);
    usleep(500000);
    return 0;
}
static pthread_mutex_t many[100] = {[0 ... 99] = PTHREAD_MUTEX_INITIALIZER };

static void *tables(void *a)
{
    pthread_barrier_wait(&together);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 100; i++) {
            L(many + i);
            __sync_fetch_and_add(&cnt, 1);
            U(many + i);
        }
    pthread_barrier_wait(&together);
    return 0;
}

int main(int c, char **v)
{
    const char *M = c > 1 ? v[1] : "";
#define IS(x) if(!strcmp(M,x))

    IS("exit_") {
        work(2);
        _exit(5);
    }
    IS("abort") {
        work(2);
        abort();
    }
    IS("kill9") {
        work(2);
        kill(getpid(), 9);
    }
    IS("segv") {
        work(2);
        *(volatile int *) 0 = 1;
    }

    IS("bgexit") {
        bg(4);
        exit(3);
    }
    IS("bgkill") {
        bg(4);
        kill(getpid(), 9);
    }
    IS("pexit") {
        pthread_t t;
        pthread_create(&t, 0, worker, 0);
        pthread_exit(0);
    }

    IS("fork") {
        work(2);
        pid_t p = fork();
        if (!p) {
            work(2);
            exit(4);
        }
        int s;
        waitpid(p, &s, 0);
        return WEXITSTATUS(s);
    }

    IS("forkmt") {
        bg(2);
        for (int i = 0; i < 20; i++) {
            pid_t p = fork();
            if (!p) {
                _exit(0);
            }
            int s;
            waitpid(p, &s, 0);
        } return 0;
    }

    IS("vfork") {
        pid_t p = vfork();
        if (!p) {
            execl("/bin/true", "true", (char *) 0);
            _exit(9);
        }
        int s;
        waitpid(p, &s, 0);
        work(2);
        return WEXITSTATUS(s);
    }

    IS("exec") {
        work(2);
        execl(v[0], v[0], "plain", (char *) 0);
    }
    IS("plain") {
        work(2);
        return 0;
    }

    IS("daemon") {
        daemon(0, 0);
        work(2);
        sleep(1);
        return 0;
    }

    IS("clone") {
        char *st = malloc(1 << 20);
        int p = clone(childf, st + (1 << 20), SIGCHLD, 0);
        int s;
        waitpid(p, &s, 0);
        return WEXITSTATUS(s);
    }

    IS("rawfork") {
        /* No other system call forks on newer machines. */
        int p = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (!p) {
            work(1);
            _exit(6);
        }
        int s;
        waitpid(p, &s, 0);
        work(2);
        return WIFEXITED(s) ? WEXITSTATUS(s) : 99;
    }

    IS("closeall") {
        for (int i = 0; i < 1024; i++)
            close(i);
        work(4);
        return 0;
    }
    IS("closerange") {
        syscall(SYS_close_range, 3, ~0u, 0);
        work(4);
        write(1, "ok\n", 3);
        return 0;
    }

    IS("chroot") {
        mkdir("cr", 0755);
        if (chroot("cr") || chdir("/"))
            return 77;
        work(4);
        pid_t p = fork();
        if (!p) {
            work(2);
            exit(0);
        }
        wait(0);
        return 0;
    }

    IS("setuid") {
        if (setgid(65534) || setuid(65534))
            return 77;
        work(20);
        pid_t p = fork();
        if (!p) {
            work(4);
            exit(0);
        }
        int s;
        wait(&s);
        return WEXITSTATUS(s);
    }

    IS("fsize") {
        struct rlimit r = { 4096, 4096 };
        setrlimit(RLIMIT_FSIZE, &r);
        work(20);
        pid_t p = fork();
        if (!p) {
            work(4);
            exit(0);
        }
        int s;
        wait(&s);
        return WIFSIGNALED(s) ? 100 + WTERMSIG(s) : WEXITSTATUS(s);
    }

    IS("nofile") {
        struct rlimit r = { 3, 3 };
        setrlimit(RLIMIT_NOFILE, &r);
        work(20);
        return 0;
    }

    IS("strict") {
        L(&mut);
        U(&mut);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        for (int i = 0; i < 3000000; i++) {
            L(&mut);
            for (int k = 0; k < 50; k++)
                cnt++;
            U(&mut);
        } write(1, "ok\n", 3);
        syscall(SYS_exit, 0);
    }

    IS("seccomp") {
        struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1), BPF_STMT(BPF_RET | BPF_K,
                                                                            SECCOMP_RET_KILL_PROCESS),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 1), BPF_STMT(BPF_RET | BPF_K,
                                                                                SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
        };
        struct sock_fprog p = { sizeof f / sizeof *f, f };
        work(2);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
        work(20);
        write(1, "ok\n", 3);
        return 0;
    }

    /* A filter that is not set through libc, and refuses calls without killing. */
    IS("filter") {
        struct sock_filter f[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        };
        struct sock_fprog p = { sizeof f / sizeof *f, f };
        work(2);
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#ifdef __x86_64__
        register long flags asm("r10") = 0;
        long r;
        asm volatile("syscall" : "=a"(r) : "a"(SYS_seccomp), "D"(1), "S"(0), "d"(&p), "r"(flags)
                     : "rcx", "r11", "memory");
#else
        register long r asm("x0") = 1, number asm("x8") = SYS_seccomp, flags asm("x1") = 0;
        register void *filter asm("x2") = &p;
        asm volatile("svc 0" : "+r"(r) : "r"(number), "r"(flags), "r"(filter) : "memory");
#endif
        if (r)
            return 77;
        work(20);
        write(1, "ok\n", 3);
        return 0;
    }
    IS("dead2") {
        pthread_t a;
        pthread_barrier_init(&together, 0, 2);
        pthread_create(&a, 0, dl1, 0);
        L(&mut2);
        pthread_barrier_wait(&together);
        alarm(2);
        L(&mut);
    }

    IS("selfdead") {
        alarm(2);
        L(&mut);
        L(&mut);
    }

    IS("selfdead9") {
        if (!fork()) {
            sleep(2);
            kill(getppid(), 9);
            _exit(0);
        }
        L(&mut);
        L(&mut);
    }

    IS("sig") {
        struct sigaction sa = {.sa_handler = onsig };
        sigaction(SIGUSR1, &sa, 0);
        L(&mut);
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            pthread_create(t + i, 0, locker, &mut);
        for (int k = 0; k < 2000; k++) {
            pthread_kill(t[k % 4], SIGUSR1);
            usleep(50);
        } U(&mut);
        for (int i = 0; i < 4; i++)
            pthread_join(t[i], 0);
        return 0;
    }

    IS("handlersem") {
        sem_t s;
        sem_init(&s, 0, 0);
        struct sigaction sa = {.sa_handler = onsig };
        sigaction(SIGALRM, &sa, 0);
        ualarm(20000, 20000);
        int r = sem_wait(&s);
        return r == -1 && errno == EINTR ? 0 : 1;
    }

    IS("shared") {
        pthread_mutex_t *p = mmap(0, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_setpshared(&a, 1);
        pthread_mutexattr_setrobust(&a, 1);
        pthread_mutex_init(p, &a);
        volatile long *x = (long *) (p + 1);
        pid_t q = fork();
        for (int i = 0; i < 100000; i++) {
            L(p);
            ++*x;
            U(p);
        } if (!q) {
            while (*x < 200000)
                usleep(1000);
            L(p);
            _exit(0);
        }
        wait(0);
        int r = L(p);
        if (r != EOWNERDEAD)
            return 11;
        pthread_mutex_consistent(p);
        U(p);
        return *x == 200000 ? 0 : 12;
    }

    IS("unrecoverable") {
        pthread_mutex_t *p = mmap(0, 4096, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_setpshared(&a, 1);
        pthread_mutexattr_setrobust(&a, 1);
        pthread_mutex_init(p, &a);
        if (!fork()) {
            L(p);
            _exit(0);
        }
        wait(0);
        if (L(p) != EOWNERDEAD)
            return 11;
        U(p);
        for (int i = 0; i < 10000; i++)
            if (L(p) != ENOTRECOVERABLE || U(p) != EPERM)
                return 12;
        return 0;
    }

    IS("pi") {
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
        pthread_mutex_init(&mut, &a);
        work(4);
        return cnt == 4 * 20000 * 50L ? 0 : 1;
    }

    IS("rec") {
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
        pthread_mutex_t r;
        pthread_mutex_init(&r, &a);
        for (int i = 0; i < 1000; i++)
            L(&r);
        for (int i = 0; i < 1000; i++)
            U(&r);
        return pthread_mutex_destroy(&r);
    }

    IS("err") {
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
        pthread_mutex_t r;
        pthread_mutex_init(&r, &a);
        if (U(&r) != EPERM)
            return 1;
        L(&r);
        if (L(&r) != EDEADLK)
            return 2;
        U(&r);
        return 0;
    }

    IS("unown") {
        L(&mut);
        pthread_t t;
        pthread_create(&t, 0, (void *(*)(void *)) pthread_mutex_unlock, &mut);
        pthread_join(t, 0);
        work(4);
        return 0;
    }

    IS("unlocked") {
        U(&mut);
        U(&mut);
        return 0;
    }

    IS("memcpy") {
        pthread_mutex_t b;
        work(2);
        memcpy(&b, &mut, sizeof b);
        for (int i = 0; i < 1000; i++) {
            L(&b);
            U(&b);
        } pthread_mutex_t *h = malloc(sizeof *h);
        memcpy(h, &mut, sizeof *h);
        L(h);
        U(h);
        free(h);
        return 0;
    }

    IS("reuse") {
        for (int i = 0; i < 20000; i++) {
            pthread_mutex_t *h = malloc(40 + (i % 200));
            if (i % 3 == 0)
                pthread_mutex_init(h, 0);
            else
                memset(h, 0, sizeof *h);
            L(h);
            U(h);
            if (i % 2)
                pthread_mutex_destroy(h);
            memset(h, 0xff, sizeof *h);
            free(h);
        }
        return 0;
    }

    IS("garbage") {
        pthread_mutex_t g;
        memset(&g, 0, sizeof g);
        ((int *) &g)[5] = 0x00c04a44;   /*spins/elision */
        pthread_t t;
        L(&g);
        U(&g);
        return 0;
    }

    IS("destlocked") {
        L(&mut);
        return pthread_mutex_destroy(&mut) == EBUSY ? 0 : 1;
    }

    IS("cancel") {
        pthread_t t[50];
        for (int i = 0; i < 50; i++)
            pthread_create(t + i, 0, condw, 0);
        usleep(20000);
        for (int i = 0; i < 50; i++)
            pthread_cancel(t[i]);
        for (int i = 0; i < 50; i++)
            pthread_join(t[i], 0);
        L(&mut);
        U(&mut);
        return 0;
    }

    IS("acancel") {
        for (int i = 0; i < 200; i++) {
            pthread_t t;
            pthread_create(&t, 0, forever, 0);
            usleep(500);
            pthread_cancel(t);
            stop = 1;
            pthread_join(t, 0);
            stop = 0;
        } return 0;
    }

    IS("tls") {
        pthread_key_create(&key, dtor);
        for (int i = 0; i < 2000; i++) {
            pthread_t t;
            pthread_create(&t, 0, tls, (void *) 1);
            pthread_join(t, 0);
        } return cnt == 2000 ? 0 : 1;
    }

    IS("condmono") {
        pthread_condattr_t a;
        pthread_condattr_init(&a);
        pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
        pthread_cond_t q;
        pthread_cond_init(&q, &a);
        struct timespec t, u;
        clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_sec += 1;
        L(&mut);
        int r = pthread_cond_timedwait(&q, &mut, &t);
        U(&mut);
        clock_gettime(CLOCK_MONOTONIC, &u);
        return r == ETIMEDOUT && u.tv_sec - t.tv_sec < 2 && (u.tv_sec > t.tv_sec
                                                             || u.tv_nsec >= t.tv_nsec) ? 0 : 1;
    }

    IS("many") {
        int n = c > 2 ? atoi(v[2]) : 10000, m = 0;
        pthread_attr_t a;
        pthread_attr_init(&a);
        pthread_attr_setstacksize(&a, 32768);
        pthread_t *t = malloc(n * sizeof *t);
        for (int i = 0; i < n; i++) {
            int r = pthread_create(t + m, &a, tiny, 0);
            if (!r)
                m++;
        }
        for (int i = 0; i < m; i++)
            pthread_join(t[i], 0);
        printf("%d threads, %ld\n", m, cnt);
        return cnt == m ? 0 : 1;
    }

    IS("dlopen") {
        for (int i = 0; i < 200; i++) {
            void *h = dlopen("./libx.so", RTLD_NOW);
            if (!h) {
                puts(dlerror());
                return 1;
            }
            void (*f)(void) = dlsym(h, "xlock");
            f();
            dlclose(h);
        } return 0;
    }

    IS("fd3") {
        dprintf(3, "to three\n");
        dprintf(9, "to nine\n");
        work(2);
        return 0;
    }

    IS("lowfd") {               /* lowest-fd rule while threads attach */
        int bad = 0;
        for (int r = 0; r < 3000; r++) {
            pthread_t t;
            pthread_create(&t, 0, tls, 0);
            close(0);
            int f = open("/dev/null", O_RDWR);
            if (f != 0)
                bad++;
            if (f > 0) {
                dup2(f, 0);
                close(f);
            }
            pthread_join(t, 0);
        }
        printf("bad=%d\n", bad);
        return bad != 0;
    }

    IS("errno") {
        errno = 77;
        L(&mut);
        U(&mut);
        work(1);
        errno = 78;
        pthread_mutex_trylock(&mut);
        U(&mut);
        return errno != 78;
    }

    IS("spawnmany") {
        for (int i = 0; i < 300; i++) {
            pid_t p = fork();
            if (!p) {
                /* A forked process has a file from its 17th acquisition. */
                for (int j = 0; j < 17; j++) {
                    L(&mut);
                    U(&mut);
                }
                _exit(0);
            }
        }
        while (wait(0) > 0);
        return 0;
    }

    IS("threadexec") {
        bg(3);
        execl(v[0], v[0], "plain", (char *) 0);
    }

    IS("dumpable") {
        prctl(PR_SET_DUMPABLE, 0);
        work(4);
        return 0;
    }

    IS("munmap") {
        work(2);
        pid_t p = fork();
        if (!p) {
            unsetenv("LD_PRELOAD");
            execl(v[0], v[0], "plain", (char *) 0);
        }
        wait(0);
        return 0;
    }

    IS("clearenv") {
        work(2);
        pid_t p = fork();
        if (!p) {
            clearenv();
            char *e[] = { 0 };
            execle(v[0], v[0], "plain", (char *) 0, e);
        }
        wait(0);
        return 0;
    }

    IS("rtsched") {
        struct sched_param sp = { 10 };
        sched_setscheduler(0, SCHED_FIFO, &sp);
        work(4);
        return 0;
    }

    /* Locks all memory, as a user who may lock little of it. */
    IS("ticks") {
        work(2);
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
        work(2);
        if (!fork()) {
            work(1);
            exit(0);
        }
        wait(0);
        write(1, "ok\n", 3);
        return 0;
    }
    IS("descriptors") {
        struct rlimit r = { 8, 8 };
        setrlimit(RLIMIT_NOFILE, &r);
        for (int i = 0; i < 8; i++)
            open("/dev/null", O_RDONLY);
        work(8);
        if (!fork()) {
            work(2);
            exit(3);
        }
        int s;
        wait(&s);
        return WEXITSTATUS(s);
    }
    IS("pinned") {
        struct rlimit r = { 48 << 20, 48 << 20 };
        setrlimit(RLIMIT_MEMLOCK, &r);
        if (!getuid() && setuid(65534))
            return 77;
        if (mlockall(MCL_CURRENT))
            return 78;
        work(1);
        FILE *f = fopen("/proc/self/status", "r");
        char b[200];
        long locked = 0;
        while (fgets(b, sizeof b, f))
            sscanf(b, "VmLck: %ld", &locked);
        return locked > 500 && locked < 48 << 10 ? 0 : 79;
    }
    IS("memlock") {
        mlockall(MCL_CURRENT | MCL_FUTURE);
        work(4);
        return 0;
    }

    IS("sigaltsegv") {
        struct sigaction sa = {.sa_handler = SIG_IGN };
        for (int i = 1; i < 32; i++)
            sigaction(i, &sa, 0);
        work(4);
        return 0;
    }

    IS("longcond") {
        pthread_t t[8];
        for (int i = 0; i < 8; i++)
            pthread_create(t + i, 0, condw, 0);
        usleep(10000);
        for (int i = 0; i < 10000; i++) {
            L(&mut);
            pthread_cond_broadcast(&cnd);
            U(&mut);
        } _exit(0);
    }

    IS("exitlocked") {
        L(&mut);
        bg(0);
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            pthread_create(t + i, 0, locker, &mut);
        usleep(100000);
        return 0;
    }

    IS("pgrp") {
        setsid();
        work(2);
        return 0;
    }

    IS("stopcont") {
        pid_t me = getpid(), child = fork();
        if (!child) {
            /* Again and again: the first signal may be too early. */
            while (getppid() == me) {
                usleep(200000);
                kill(me, SIGCONT);
            }
            _exit(0);
        }
        raise(SIGSTOP);
        work(2);
        kill(child, SIGKILL);
        wait(0);
        return 0;
    }
    IS("tables") {
        pthread_barrier_init(&together, 0, 50);
        pthread_t t[50];
        for (int i = 0; i < 50; i++)
            pthread_create(t + i, 0, tables, 0);
        for (int i = 0; i < 50; i++)
            pthread_join(t[i], 0);
        printf("%ld\n", cnt);
        return 0;
    }
    IS("maps") {
        work(2);
        char b[65536];
        int f = open("/proc/self/maps", O_RDONLY);
        long n;
        while ((n = read(f, b, sizeof b)) > 0)
            write(1, b, n);
        return 0;
    }
    IS("goeson") {
        for (int i = 0; i < 1000; i++) {
            L(&mut);
            L(&mut2);
            U(&mut2);
            U(&mut);
            usleep(1000);
        } return 0;
    }
    return 66;
}
