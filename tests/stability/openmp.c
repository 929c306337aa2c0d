// Programs with one known use of OpenMP's locks in each mode. The second argument is how long to run,
// in seconds.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double compute(int rounds, double from) {
  for (int i = 0; i < rounds; i++) from = from * 1.0000001 + i;
  return from;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "critical";
  double end = omp_get_wtime() + (argc > 2 ? atof(argv[2]) : 1.0), sum = 0.0;
  omp_lock_t lock;
  omp_init_lock(&lock);
#pragma omp parallel num_threads(4)
  for (double own = 0.0; omp_get_wtime() < end;) {
    own += compute(200, own);
    if (!strcmp(mode, "critical")) {
#pragma omp critical
      sum += compute(300, own);
    } else if (!strcmp(mode, "asleep")) {
      omp_set_lock(&lock);
      usleep(2000);
      omp_unset_lock(&lock);
    } else if (!strcmp(mode, "long")) {
#pragma omp critical(table)
      sum += compute(400000, own);
    } else {
      own += compute(300, own);
    }
  }
  fprintf(stderr, "%g\n", sum);
  return 0;
}
