// Starts a program, itself or another one, in each way that libc has, with an environment that lacks
// what this process has.
// usage: starts MODE TARGET; `child` takes a mutex 1000 times and prints its environment
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static pthread_mutex_t in_child = PTHREAD_MUTEX_INITIALIZER;

static int child(void) {
  for (int i = 0; i < 1000; i++) {
    pthread_mutex_lock(&in_child);
    pthread_mutex_unlock(&in_child);
  }
  for (char **one = environ; *one; one++) puts(*one);
  return 7;
}

static int waited(pid_t pid) {
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return 99;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  const char *target = argc > 2 ? argv[2] : argv[0];
  const char *name = strrchr(target, '/') + 1;
  char *words[] = {(char *)name, "child", NULL};
  char *own[] = {"OWN=one", "OTHER=two words", NULL};
  if (!strcmp(mode, "child")) return child();
  if (!strcmp(mode, "execve")) execve(target, words, own);
  if (!strcmp(mode, "null")) execve(target, words, NULL);
  if (!strcmp(mode, "execvpe")) execvpe(target, words, own);
  if (!strcmp(mode, "execle")) execle(target, name, "child", (char *)NULL, own);
  if (!strcmp(mode, "execle_long"))
    execle(target, name, "child", "2", "3", "4", "5", "6", "7", "8", "9", (char *)NULL, own);
  if (!strcmp(mode, "fexecve")) fexecve(open(target, O_RDONLY | O_CLOEXEC), words, own);
#ifdef __GLIBC__
  if (!strcmp(mode, "execveat"))
    execveat(open(target, O_PATH | O_CLOEXEC), "", words, own, AT_EMPTY_PATH);
#endif
  if (!strcmp(mode, "preload")) {
    char *with[] = {"LD_PRELOAD=libm.so.6", "LAST=1", NULL};
    execve(target, words, with);
  }
  if (!strcmp(mode, "missing")) {
    execve("/no/such/program", words, own);
    return errno == ENOENT ? 5 : 6;
  }
  if (!strcmp(mode, "spawn") || !strcmp(mode, "spawnp")) {
    pid_t pid = -1;
    int error = !strcmp(mode, "spawn") ? posix_spawn(&pid, target, NULL, NULL, words, own)
                                       : posix_spawnp(&pid, target, NULL, NULL, words, own);
    return error ? error : waited(pid);
  }
  if (!strcmp(mode, "vfork")) {
    int sum = 0;
    for (int i = 0; i < 20; i++) {
      pid_t pid = vfork();
      if (pid == 0) {
        execve(target, words, own);
        _exit(97);
      }
      sum += waited(pid) == 7;
    }
    return sum;
  }
  if (!strcmp(mode, "inherit")) execv(target, words);
  if (!strcmp(mode, "again")) {
    // The second start is out of a program that does not know the variables itself.
    char *again[] = {argv[0], "execv", (char *)target, NULL};
    execve(argv[0], again, own);
  }
  clearenv();
  if (!strcmp(mode, "execv")) execv(target, words);
  if (!strcmp(mode, "execl")) execl(target, name, "child", (char *)NULL);
  char path[4096];
  snprintf(path, sizeof path, "PATH=/no such place:%.*s", (int)(name - target - 1), target);
  putenv(path);
  if (!strcmp(mode, "execvp")) execvp(name, words);
  if (!strcmp(mode, "execlp")) execlp(name, name, "child", (char *)NULL);
  if (!strcmp(mode, "system")) return WEXITSTATUS(system("exit 3"));
  return 96;
}
