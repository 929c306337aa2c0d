/* A program that looks like a Java virtual machine from outside: it maps files named libjvm.so and
 * hsperfdata, opens its socket on SIGQUIT if it finds the file that asks for it, and answers with
 * the text of a file. Arguments: its directory for libjvm.so, that text, its capabilities and its
 * arguments, such as -Xrs. On its standard output, a line for each signal without that file.
 * Prints "ready" first; ends when its input ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char answer[1 << 16];
static size_t answer_size;
static struct sockaddr_un at = {AF_UNIX, ""};

static void put(char *data, int *used, const char *name, const char *text, int64_t number)
{
    char *entry = data + *used;
    int words[4] = {128, 20, text ? 64 : 0, 0};
    int value = 64;
    memcpy(entry, words, sizeof words);
    entry[12] = text ? 'B' : 'J';
    memcpy(entry + 16, &value, 4);
    strcpy(entry + 20, name);
    if (text)
        strncpy(entry + 64, text, 63);
    else
        memcpy(entry + 64, &number, 8);
    *used += 128;
    ++*(int *)(data + 28);
}

static char *map(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, 4096))
        exit(2);
    return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

static void *serve(void *listener)
{
    for (;;) {
        char request[256] = "";
        int with = accept((int)(intptr_t)listener, 0, 0);
        size_t size = 0;
        /* The version, the command and three arguments, each with its end. */
        for (int ends = 0; ends < 5 && size < sizeof request; size++) {
            if (read(with, request + size, 1) != 1)
                break;
            ends += !request[size];
        }
        int is_known = !strcmp(request + 2, "threaddump");
        const char *no = "101\nOperation not recognized!";
        if (write(with, is_known ? answer : no, is_known ? answer_size : strlen(no)) < 0)
            exit(3);
        close(with);
    }
    return 0;
}

int main(int count, char **words)
{
    char path[512], note[64];
    sigset_t quit;
    int used = 32, signal;
    if (count < 5)
        return 2;
    snprintf(path, sizeof path, "%s/libjvm.so", words[1]);
    map(path);
    FILE *text = fopen(words[2], "r");
    answer_size = fread(answer, 1, sizeof answer, text);
    snprintf(path, sizeof path, "/tmp/hsperfdata_convoy%d", getpid());
    mkdir(path, 0700);
    snprintf(path, sizeof path, "/tmp/hsperfdata_convoy%d/%d", getpid(), getpid());
    char *data = map(path);
    memcpy(data, "\xca\xfe\xc0\xc0", 4);
    data[7] = 1;
    *(int *)(data + 24) = 32;
    put(data, &used, "sun.rt.jvmCapabilities", words[3], 0);
    put(data, &used, "java.rt.vmArgs", words[4], 0);
    put(data, &used, "sun.rt.createVmEndTime", 0, 1);
    put(data, &used, "sun.os.hrt.frequency", 0, 1000000000);
    put(data, &used, "sun.rt.safepointTime", 0, 0);
    put(data, &used, "sun.rt.safepointSyncTime", 0, 0);
    sigemptyset(&quit);
    sigaddset(&quit, SIGQUIT);
    sigprocmask(SIG_BLOCK, &quit, 0);
    /* A machine under -Xrs has no handler. */
    if (!strstr(words[4], "-Xrs"))
        sigaction(SIGQUIT, &(struct sigaction){.sa_handler = exit}, 0);
    puts("ready");
    fflush(stdout);
    snprintf(note, sizeof note, "/tmp/.attach_pid%d", getpid());
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/.java_pid%d", getpid());
    for (int is_open = 0;;) {
        fd_set in;
        struct timespec wait = {0, 10000000};
        signal = sigtimedwait(&quit, 0, &wait);
        if (signal == SIGQUIT && !is_open && !access(note, F_OK)) {
            int listener = socket(AF_UNIX, SOCK_STREAM, 0);
            pthread_t thread;
            bind(listener, (struct sockaddr *)&at, sizeof at);
            listen(listener, 5);
            pthread_create(&thread, 0, serve, (void *)(intptr_t)listener);
            is_open = 1;
        } else if (signal == SIGQUIT) {
            puts("full thread dump");
            fflush(stdout);
        }
        struct timeval none = {0, 0};
        FD_ZERO(&in);
        FD_SET(0, &in);
        if (select(1, &in, 0, 0, &none) > 0)
            break;
    }
    unlink(at.sun_path);
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    return 0;
}
