// Programs with one known use of locks in each mode. The second argument is how long to run, seconds.
#include <arpa/inet.h>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

using Clock = std::chrono::steady_clock;
static Clock::time_point end;

static bool over() { return Clock::now() >= end; }

static void sleep_us(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

static unsigned long compute(unsigned long x, int steps) {
    for (int i = 0; i < steps; i++) x = x * 6364136223846793005ul + 1442695040888963407ul;
    __asm__ volatile("" ::"r"(x));
    return x;
}

static void compute_ms(double ms) {
    timespec now;
    auto used = [&] {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
    };
    for (double until = used() + ms; used() < until;) compute(1, 1000);
}

// Readers of a map that one thread rewrites from time to time.
struct Routes {
    std::shared_mutex lock;
    std::map<int, int> table;

    int look_up(int key) {
        std::shared_lock<std::shared_mutex> held(lock);
        compute(key, 300);
        auto entry = table.find(key);
        return entry == table.end() ? 0 : entry->second;
    }
    void rewrite() {
        std::unique_lock<std::shared_mutex> held(lock);
        compute_ms(15);
        table.clear();
        for (int i = 0; i < 100; i++) table[i] = i;
    }
};
static Routes routes;

// A cache of recently used entries under one mutex.
struct Cache {
    std::mutex lock;
    std::list<int> order;
    std::unordered_map<int, std::list<int>::iterator> entries;

    void look_up(int key) {
        std::lock_guard<std::mutex> held(lock);
        auto entry = entries.find(key);
        if (entry != entries.end()) {
            order.splice(order.begin(), order, entry->second);
            return;
        }
        order.push_front(key);
        entries[key] = order.begin();
        if (order.size() > 1000) {
            entries.erase(order.back());
            order.pop_back();
        }
    }
};
static Cache cache, shards[64];

// A journal that is flushed under its mutex, or after it.
struct Journal {
    std::mutex lock;
    std::string text;

    void append(bool flushes_inside) {
        std::unique_lock<std::mutex> held(lock);
        text += "x";
        if (text.size() % 8) return;
        if (!flushes_inside) held.unlock();
        sleep_us(2000);
    }
};
static Journal journal;

struct Pool {
    std::mutex lock;
    std::condition_variable returned;
    int units;

    explicit Pool(int units) : units(units) {}
    void acquire() {
        std::unique_lock<std::mutex> held(lock);
        returned.wait(held, [this] { return units > 0; });
        units--;
    }
    void release() {
        {
            std::lock_guard<std::mutex> held(lock);
            units++;
        }
        returned.notify_one();
    }
};

// The same with a condition for any lock, and with a semaphore.
struct AnyPool {
    std::mutex lock;
    int units = 2;
};
static AnyPool any;
static std::condition_variable_any returned;
static std::counting_semaphore<> units(2);

// Tasks of one thread for workers.
struct Queue {
    std::mutex lock;
    std::condition_variable filled;
    std::deque<int> tasks;

    void push(int task) {
        {
            std::lock_guard<std::mutex> held(lock);
            tasks.push_back(task);
        }
        filled.notify_one();
    }
    bool pop() {
        std::unique_lock<std::mutex> held(lock);
        filled.wait_for(held, std::chrono::milliseconds(100), [this] { return !tasks.empty(); });
        if (tasks.empty()) return false;
        tasks.pop_front();
        return true;
    }
};
static Queue queue;

// Threads that execute tasks for others, which wait for the results.
struct Executor {
    std::mutex lock;
    std::condition_variable filled;
    std::deque<std::promise<void>> tasks;

    void work() {
        std::unique_lock<std::mutex> held(lock);
        filled.wait_for(held, std::chrono::milliseconds(100), [this] { return !tasks.empty(); });
        if (tasks.empty()) return;
        std::promise<void> task = std::move(tasks.front());
        tasks.pop_front();
        held.unlock();
        sleep_us(5000);
        task.set_value();
    }
    void ask() {
        std::promise<void> task;
        std::future<void> result = task.get_future();
        {
            std::lock_guard<std::mutex> held(lock);
            tasks.push_back(std::move(task));
        }
        filled.notify_one();
        result.wait_for(std::chrono::milliseconds(50));
    }
};
static Executor executor;

// Threads that take turns to wait for a client.
struct Acceptor {
    std::mutex lock;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};

    Acceptor() {
        socklen_t size = sizeof address;
        bind(listener, (sockaddr *)&address, size);
        getsockname(listener, (sockaddr *)&address, &size);
        listen(listener, 64);
    }
    void serve() {
        lock.lock();
        int client = accept(listener, nullptr, nullptr);
        lock.unlock();
        close(client);
    }
    void visit() {
        int client = socket(AF_INET, SOCK_STREAM, 0);
        connect(client, (sockaddr *)&address, sizeof address);
        close(client);
    }
};
static Acceptor acceptor;

template <class F> static void start(std::vector<std::thread> &threads, int count, F work) {
    while (count-- > 0)
        threads.emplace_back([work, count] {
            while (!over()) work(count);
        });
}

int main(int count, char **words) {
    std::string mode = count > 1 ? words[1] : "";
    end = Clock::now() + std::chrono::milliseconds(int(1000 * (count > 2 ? atof(words[2]) : 1)));
    std::vector<std::thread> threads;
    static Pool two(2), sixteen(16);
    if (mode == "rewrites") {
        start(threads, 6, [](int key) { routes.look_up(key); sleep_us(100); });
        start(threads, 1, [](int) { routes.rewrite(); sleep_us(20000); });
    } else if (mode == "cache") {
        start(threads, 4, [](int key) {
            for (int i = 0; i < 100; i++) cache.look_up(rand_r((unsigned *)&key) % 2000);
        });
    } else if (mode == "shards") {
        start(threads, 4, [](int key) {
            for (int i = 0; i < 100; i++) {
                compute(i, 300);
                int entry = rand_r((unsigned *)&key) % 2000;
                shards[entry % 64].look_up(entry);
            }
        });
    } else if (mode == "journal" || mode == "journal-outside") {
        bool inside = mode == "journal";
        start(threads, 6, [inside](int) { journal.append(inside); sleep_us(500); });
    } else if (mode == "pool" || mode == "pool-enough") {
        Pool *pool = mode == "pool" ? &two : &sixteen;
        start(threads, 16, [pool](int) { pool->acquire(); sleep_us(5000); pool->release(); });
    } else if (mode == "pool-any") {
        start(threads, 12, [](int) {
            {
                std::unique_lock<std::mutex> held(any.lock);
                returned.wait(held, [] { return any.units > 0; });
                any.units--;
            }
            sleep_us(5000);
            {
                std::lock_guard<std::mutex> held(any.lock);
                any.units++;
            }
            returned.notify_one();
        });
    } else if (mode == "semaphore") {
        start(threads, 12, [](int) { units.acquire(); sleep_us(5000); units.release(); });
    } else if (mode == "output") {
        start(threads, 4, [](int key) { std::cout << "line " << key << "\n"; });
    } else if (mode == "queue") {
        start(threads, 4, [](int) { if (queue.pop()) compute_ms(0.2); });
        start(threads, 1, [](int) { queue.push(1); sleep_us(2000); });
    } else if (mode == "executor" || mode == "executor-enough") {
        start(threads, mode == "executor" ? 2 : 16, [](int) { executor.work(); });
        start(threads, 16, [](int) { executor.ask(); });
    } else if (mode == "acceptors") {
        for (int i = 0; i < 6; i++) std::thread([] { for (;;) acceptor.serve(); }).detach();
        start(threads, 1, [](int) { acceptor.visit(); sleep_us(20000); });
    } else if (mode == "private") {
        start(threads, 4, [](int) {
            static thread_local std::mutex own;
            for (int i = 0; i < 100; i++) {
                std::lock_guard<std::mutex> held(own);
                compute(i, 100);
            }
        });
    }
    for (auto &thread : threads) thread.join();
    return threads.empty();
}
