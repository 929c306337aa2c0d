/* Threads that move files from one directory to another: the kernel has one lock for that. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void *body(void *number) {
    char here[32], there[32];
    snprintf(here, sizeof here, "here/%ld", (long)number);
    snprintf(there, sizeof there, "there/%ld", (long)number);
    fclose(fopen(here, "w"));
    for (int turn = 0; turn < 10000; turn++) {
        rename(here, there);
        rename(there, here);
    }
    unlink(here);
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[4];
    if (count < 2 || chdir(words[1]) || mkdir("here", 0700) || mkdir("there", 0700))
        return 1;
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, body, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return rmdir("here") || rmdir("there");
}
