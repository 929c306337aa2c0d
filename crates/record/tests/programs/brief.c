/* Forks children that acquire a free mutex and end: how many, and how often each acquires it. The
   last one waits for a mutex that its parent holds, if there is a third argument. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t in_child = PTHREAD_MUTEX_INITIALIZER;

static int sleeps(pid_t pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    int count = file ? fscanf(file, "%*d %*s %c", &state) : 0;
    if (file)
        fclose(file);
    return count == 1 && state == 'S';
}

int main(int words, char **word) {
    int children = atoi(word[1]), acquisitions = atoi(word[2]);
    pthread_mutex_t *shared =
        mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared, &kind);
    for (int i = 0; i < children; i++) {
        int waits = words > 3 && i == children - 1;
        if (waits)
            pthread_mutex_lock(shared);
        pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < acquisitions; j++) {
                pthread_mutex_lock(&in_child);
                pthread_mutex_unlock(&in_child);
            }
            if (waits) {
                pthread_mutex_lock(shared);
                pthread_mutex_unlock(shared);
            }
            _exit(0);
        }
        while (waits && !sleeps(child))
            ;
        if (waits)
            pthread_mutex_unlock(shared);
        waitpid(child, 0, 0);
    }
    return 0;
}
