// Primitives of glibc, libstdc++ and abseil behind C functions. Each has one type with the same
// operations; EXPORT makes the functions.

#include <barrier>
#include <pthread.h>
#include <semaphore.h>
#include <semaphore>
#ifdef ABSEIL
#include <absl/base/call_once.h>
#include <absl/synchronization/mutex.h>
#endif

struct GlibcRwLock {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  explicit GlibcRwLock(unsigned) {}
  void read() { pthread_rwlock_rdlock(&lock); }
  void read_unlock() { pthread_rwlock_unlock(&lock); }
  void write() { pthread_rwlock_wrlock(&lock); }
  void write_unlock() { pthread_rwlock_unlock(&lock); }
};

struct GlibcMonitor {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
  explicit GlibcMonitor(unsigned) {}
  void lock() { pthread_mutex_lock(&mutex); }
  void unlock() { pthread_mutex_unlock(&mutex); }
  void wait(unsigned which) { pthread_cond_wait(&changed[which], &mutex); }
  void notify_one(unsigned which) { pthread_cond_signal(&changed[which]); }
  void notify_all(unsigned which) { pthread_cond_broadcast(&changed[which]); }
};

struct GlibcSemaphore {
  sem_t semaphore;
  explicit GlibcSemaphore(unsigned permits) { sem_init(&semaphore, 0, permits); }
  void acquire() { while (sem_wait(&semaphore)) {} }
  void release() { sem_post(&semaphore); }
};

struct GlibcOnce {
  pthread_once_t once = PTHREAD_ONCE_INIT;
  explicit GlibcOnce(unsigned) {}
  void call(void (*body)()) { pthread_once(&once, body); }
};

struct GlibcBarrier {
  pthread_barrier_t barrier;
  explicit GlibcBarrier(unsigned threads) { pthread_barrier_init(&barrier, nullptr, threads); }
  void wait() { pthread_barrier_wait(&barrier); }
};

struct StdcxxSemaphore {
  std::counting_semaphore<> semaphore;
  explicit StdcxxSemaphore(unsigned permits) : semaphore(permits) {}
  void acquire() { semaphore.acquire(); }
  void release() { semaphore.release(); }
};

struct StdcxxBarrier {
  std::barrier<> barrier;
  explicit StdcxxBarrier(unsigned threads) : barrier(threads) {}
  void wait() { barrier.arrive_and_wait(); }
};

#ifdef ABSEIL
struct AbseilRwLock {
  absl::Mutex mutex;
  explicit AbseilRwLock(unsigned) {}
  void read() { mutex.ReaderLock(); }
  void read_unlock() { mutex.ReaderUnlock(); }
  void write() { mutex.Lock(); }
  void write_unlock() { mutex.Unlock(); }
};

struct AbseilMonitor {
  absl::Mutex mutex;
  absl::CondVar changed[2];
  explicit AbseilMonitor(unsigned) {}
  void lock() { mutex.Lock(); }
  void unlock() { mutex.Unlock(); }
  void wait(unsigned which) { changed[which].Wait(&mutex); }
  void notify_one(unsigned which) { changed[which].Signal(); }
  void notify_all(unsigned which) { changed[which].SignalAll(); }
};

struct AbseilOnce {
  absl::once_flag once;
  explicit AbseilOnce(unsigned) {}
  void call(void (*body)()) { absl::call_once(once, body); }
};
#endif

#define EXPORT(Type) \
  extern "C" Type* Type##_new(unsigned number) { return new Type(number); } \
  extern "C" void Type##_free(Type* it) { delete it; }
#define PLAIN(Type, name) extern "C" void Type##_##name(Type* it) { it->name(); }
#define WITH(Type, name, Word) \
  extern "C" void Type##_##name(Type* it, Word word) { it->name(word); }
#define RWLOCK(Type) \
  EXPORT(Type) PLAIN(Type, read) PLAIN(Type, read_unlock) PLAIN(Type, write) PLAIN(Type, write_unlock)
#define MONITOR(Type) \
  EXPORT(Type) PLAIN(Type, lock) PLAIN(Type, unlock) WITH(Type, wait, unsigned) \
  WITH(Type, notify_one, unsigned) WITH(Type, notify_all, unsigned)
#define SEMAPHORE(Type) EXPORT(Type) PLAIN(Type, acquire) PLAIN(Type, release)
using Body = void (*)();
#define ONCE(Type) EXPORT(Type) WITH(Type, call, Body)
#define BARRIER(Type) EXPORT(Type) PLAIN(Type, wait)

RWLOCK(GlibcRwLock)
MONITOR(GlibcMonitor)
SEMAPHORE(GlibcSemaphore)
ONCE(GlibcOnce)
BARRIER(GlibcBarrier)
SEMAPHORE(StdcxxSemaphore)
BARRIER(StdcxxBarrier)
#ifdef ABSEIL
RWLOCK(AbseilRwLock)
MONITOR(AbseilMonitor)
ONCE(AbseilOnce)
#endif
