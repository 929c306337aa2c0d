// The lock-contention model on SimGrid: a FIFO mutex and one actor for each task.
//
// contention TASKS ACQUISITIONS prints acquisitions per second of the host's CPU. Build:
// c++ -O2 contention.cpp -lsimgrid; run with --cfg=contexts/factory:raw, its fastest contexts.

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;

static const double HOLD = 100;
static long acquisitions = 0;

static void task(sg::MutexPtr lock, int tasks, int number) {
  std::minstd_rand random(number + 1);
  std::uniform_real_distribution<double> think(0.5 * tasks / 10, 1.5 * tasks / 10);
  for (;;) {
    lock->lock();
    acquisitions++;
    sg::this_actor::sleep_for(HOLD);
    lock->unlock();
    sg::this_actor::sleep_for(think(random));
  }
}

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: contention TASKS ACQUISITIONS\n");
    return 2;
  }
  int tasks = std::atoi(argv[1]);
  double until = std::atof(argv[2]) * HOLD;
  auto* zone = sg::create_full_zone("zone");
  auto* host = zone->create_host("host", 1e9);
  zone->seal();
  auto lock = sg::Mutex::create();
  for (int number = 0; number < tasks; number++)
    sg::Actor::create("task", host, task, lock, tasks, number);
  std::clock_t begin = std::clock();
  engine.run_until(until);
  double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%.0f\n", acquisitions / seconds);
  std::fflush(stdout);
  std::_Exit(0);
}
