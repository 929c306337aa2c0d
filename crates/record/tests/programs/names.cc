// Mutexes under names that C++ and C write in different ways: variables of classes, in functions
// and in arrays, members that are named by a template or a lambda in which they are taken, and
// functions that would be types if their names were decoded. Prints one line.
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace storage_engine_of_this_program {
struct Cache {
    static std::mutex guards_all_entries;
};
std::mutex Cache::guards_all_entries;
} // namespace storage_engine_of_this_program

static void section() { usleep(500); }

template <typename T> struct Guarded {
    std::mutex own;
    T value{};
    template <typename F> __attribute__((noinline)) void with(F change)
    {
        own.lock();
        change(value);
        own.unlock();
    }
};

__attribute__((noinline)) void in_function()
{
    static std::mutex local_to_it;
    local_to_it.lock();
    section();
    local_to_it.unlock();
}

extern "C" {
std::mutex m;
static std::mutex several[2];
__attribute__((noinline)) void w()
{
    m.lock();
    section();
    m.unlock();
}
__attribute__((noinline)) void Pc(std::mutex *one)
{
    one->lock();
    section();
    one->unlock();
}
}

int main()
{
    auto *members = new Guarded<std::vector<int>>;
    auto *taken_in_lambda = new std::mutex;
    auto *taken_in_pc = new std::mutex;
    auto turn = [&] {
        for (int at = 0; at < 40; at++) {
            auto &cache = storage_engine_of_this_program::Cache::guards_all_entries;
            cache.lock();
            section();
            cache.unlock();
            members->with([](std::vector<int> &value) { value.push_back(1); section(); });
            in_function();
            w();
            Pc(taken_in_pc);
            several[1].lock();
            section();
            several[1].unlock();
            taken_in_lambda->lock();
            section();
            taken_in_lambda->unlock();
        }
    };
    std::thread threads[] = {std::thread(turn), std::thread(turn), std::thread(turn)};
    for (auto &thread : threads)
        thread.join();
    std::puts("done");
}
