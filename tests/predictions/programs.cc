// Small servers: each thread makes passes until the time is up.
// usage: programs MODE THREADS SECONDS; prints the passes per second.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <queue>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using Clock = std::chrono::steady_clock;
std::atomic<bool> over;
std::atomic<long> passes;

static void rest(long us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

// A queue with room for eight items.
class Queue {
    std::mutex lock;
    std::condition_variable filled, emptied;
    std::queue<int> items;

public:
    bool put(int item) {
        std::unique_lock guard(lock);
        emptied.wait(guard, [&] { return items.size() < 8 || over; });
        items.push(item);
        filled.notify_one();
        return !over;
    }
    bool take() {
        std::unique_lock guard(lock);
        filled.wait(guard, [&] { return !items.empty() || over; });
        if (items.empty())
            return false;
        items.pop();
        emptied.notify_one();
        return true;
    }
    void close() {
        std::lock_guard guard(lock);
        filled.notify_all();
        emptied.notify_all();
    }
};

static Queue requests, parsed;
static std::shared_mutex sessions_lock;
static std::map<int, std::string> sessions;
static std::mutex cache_lock;
static std::list<int> recent;
static std::unordered_map<int, std::list<int>::iterator> cache;

// Workers of a queue that one thread fills; an item takes 3 ms.
static void worker(std::minstd_rand &) {
    if (requests.take()) {
        rest(3000);
        passes++;
    }
}

// Half of the threads parse for 1 ms, the others store for 2 ms.
static void stage(std::minstd_rand &random) {
    static std::atomic<int> numbers;
    thread_local int number = numbers++;
    if (number % 2 == 0) {
        rest(1000);
        parsed.put(random());
    } else if (parsed.take()) {
        rest(2000);
        passes++;
    }
}

static void session(std::minstd_rand &random) {
    rest(2000);
    int key = random() % 1000;
    if (random() % 10 == 0) {
        std::unique_lock guard(sessions_lock);
        sessions[key] = std::to_string(key);
    } else {
        std::shared_lock guard(sessions_lock);
        sessions.find(key);
    }
    passes++;
}

// The least recently used keys are replaced; one of ten lookups misses and reads for 2 ms.
static void lookup(std::minstd_rand &random) {
    int key = random() % 10 ? random() % 500 : random() % 100000;
    {
        std::lock_guard guard(cache_lock);
        auto entry = cache.find(key);
        if (entry != cache.end()) {
            recent.splice(recent.begin(), recent, entry->second);
            passes++;
            return;
        }
    }
    rest(2000);
    std::lock_guard guard(cache_lock);
    if (!cache.count(key)) {
        recent.push_front(key);
        cache[key] = recent.begin();
        if (recent.size() > 1000) {
            cache.erase(recent.back());
            recent.pop_back();
        }
    }
    passes++;
}

int main(int, char **arguments) {
    std::map<std::string, void (*)(std::minstd_rand &)> modes = {
        {"worker", worker}, {"stage", stage}, {"session", session}, {"lookup", lookup}};
    auto pass = modes.at(arguments[1]);
    auto begin = Clock::now();
    std::vector<std::thread> threads;
    if (pass == worker)
        threads.emplace_back([] {
            while (requests.put(1)) {
            }
        });
    for (int number = 0; number < atoi(arguments[2]); number++)
        threads.emplace_back([=] {
            std::minstd_rand random(number + 1);
            while (!over)
                pass(random);
        });
    rest(1e6 * atof(arguments[3]));
    over = true;
    requests.close();
    parsed.close();
    for (auto &thread : threads)
        thread.join();
    printf("%f\n", passes / std::chrono::duration<double>(Clock::now() - begin).count());
}
