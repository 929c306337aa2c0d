// A service with eight threads. Each request renders a page from a template on a disk (here: it
// sleeps) and puts it into a cache, under the mutex of the cache. -DRENDER_OUTSIDE is the repaired
// version.
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct Cache {
    std::mutex lock;
    std::map<int, std::string> pages;
};

static Cache cache;

static std::string render(int request) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    std::string page;
    for (int row = 0; row < 40; row++) page += std::to_string(request * row) + "\n";
    return page;
}

static void serve(int request) {
#ifdef RENDER_OUTSIDE
    std::string page = render(request);
    std::lock_guard<std::mutex> guard(cache.lock);
    cache.pages[request % 64].swap(page);
#else
    std::lock_guard<std::mutex> guard(cache.lock);
    cache.pages[request % 64] = render(request);
#endif
}

int main() {
    std::vector<std::thread> threads;
    for (int first = 0; first < 8; first++)
        threads.emplace_back([first] {
            for (int request = first; request < 2400; request += 8) serve(request);
        });
    for (auto &thread : threads) thread.join();
}
