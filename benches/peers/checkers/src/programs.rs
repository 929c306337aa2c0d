// Six programs, each as it should be and broken, over the types of a checker: included once for
// each of the modules in `main.rs`, whose `platform` gives the types.

use platform::atomic::{AtomicUsize, Ordering, fence};
use platform::{Arc, Condvar, Mutex, UnsafeCell, spin_loop, thread};

/// Data that a lock guards.
struct Guarded<T> {
    lock: T,
    data: UnsafeCell<usize>,
}

// SAFETY: the checkers check the accesses.
unsafe impl<T> Send for Guarded<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Guarded<T> {}

/// Three threads, with the first one, add to a number under a lock.
fn under<T: 'static>(threads: usize, lock: T, acquire: fn(&T, usize), release: fn(&T, usize)) {
    let shared = Arc::new(Guarded { lock, data: UnsafeCell::new(0) });
    let add = move |shared: &Guarded<T>, number| {
        acquire(&shared.lock, number);
        shared.data.with_mut(|data| unsafe { *data += 1 });
        release(&shared.lock, number);
    };
    let started: Vec<_> = (1..threads)
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || add(&shared, number))
        })
        .collect();
    add(&shared, 0);
    for thread in started {
        thread.join().unwrap();
    }
    shared.data.with(|data| assert_eq!(unsafe { *data }, threads));
}

struct Ticket {
    next: AtomicUsize,
    serving: AtomicUsize,
}

pub fn ticket_lock(threads: usize, broken: bool) {
    let lock = Ticket { next: AtomicUsize::new(0), serving: AtomicUsize::new(0) };
    fn acquire(lock: &Ticket, _: usize) {
        let mine = lock.next.fetch_add(1, Ordering::Relaxed);
        while lock.serving.load(Ordering::Acquire) != mine {
            spin_loop();
        }
    }
    fn next(lock: &Ticket, order: Ordering) {
        let mine = lock.serving.load(Ordering::Relaxed);
        lock.serving.store(mine + 1, order);
    }
    let release: fn(&Ticket, usize) = if broken {
        |lock, _| next(lock, Ordering::Relaxed)
    } else {
        |lock, _| next(lock, Ordering::Release)
    };
    under(threads, lock, acquire, release);
}

pub fn test_and_set(threads: usize, broken: bool) {
    fn acquire(word: &AtomicUsize, _: usize) {
        while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            spin_loop();
        }
    }
    let release: fn(&AtomicUsize, usize) = if broken {
        |word, _| word.store(0, Ordering::Relaxed)
    } else {
        |word, _| word.store(0, Ordering::Release)
    };
    under(threads, AtomicUsize::new(0), acquire, release);
}

struct Peterson {
    flags: [AtomicUsize; 2],
    turn: AtomicUsize,
    broken: bool,
}

/// Peterson's lock (1981), whose exchange of the turn orders the flags (Williams, 2008).
pub fn peterson(_: usize, broken: bool) {
    fn acquire(lock: &Peterson, task: usize) {
        let other = 1 - task;
        lock.flags[task].store(1, Ordering::Relaxed);
        if lock.broken {
            lock.turn.store(other, Ordering::Release);
        } else {
            lock.turn.swap(other, Ordering::AcqRel);
        }
        while lock.flags[other].load(Ordering::Acquire) == 1
            && lock.turn.load(Ordering::Acquire) == other
        {
            spin_loop();
        }
    }
    fn release(lock: &Peterson, task: usize) {
        lock.flags[task].store(0, Ordering::Release);
    }
    let flags = [AtomicUsize::new(0), AtomicUsize::new(0)];
    under(2, Peterson { flags, turn: AtomicUsize::new(0), broken }, acquire, release);
}

const SLOTS: usize = 2;

struct Ring {
    slots: [UnsafeCell<usize>; SLOTS],
    head: AtomicUsize,
    tail: AtomicUsize,
}

// SAFETY: the checkers check the accesses.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// A ring of one producer and one consumer, which poll.
pub fn ring(_: usize, broken: bool) {
    const ITEMS: usize = 3;
    let ring = Arc::new(Ring {
        slots: [UnsafeCell::new(0), UnsafeCell::new(0)],
        head: AtomicUsize::new(0),
        tail: AtomicUsize::new(0),
    });
    let other = Arc::clone(&ring);
    let order = if broken { Ordering::Relaxed } else { Ordering::Release };
    let producer = thread::spawn(move || {
        for item in 0..ITEMS {
            while item - other.head.load(Ordering::Acquire) == SLOTS {
                spin_loop();
            }
            other.slots[item % SLOTS].with_mut(|slot| unsafe { *slot = item });
            other.tail.store(item + 1, order);
        }
    });
    for item in 0..ITEMS {
        while ring.tail.load(Ordering::Acquire) == item {
            spin_loop();
        }
        ring.slots[item % SLOTS].with(|slot| assert_eq!(unsafe { *slot }, item));
        ring.head.store(item + 1, Ordering::Release);
    }
    producer.join().unwrap();
}

/// References to an object, the last of which frees it: without a fence after the last.
pub fn reference_count(threads: usize, broken: bool) {
    let shared = Arc::new(Guarded { lock: AtomicUsize::new(threads), data: UnsafeCell::new(0) });
    let release = move |shared: &Guarded<AtomicUsize>| {
        shared.data.with(|data| assert!(unsafe { *data } == 0));
        if shared.lock.fetch_sub(1, Ordering::Release) == 1 {
            if !broken {
                fence(Ordering::Acquire);
            }
            shared.data.with_mut(|data| unsafe { *data = 1 });
        }
    };
    let started: Vec<_> = (1..threads)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || release(&shared))
        })
        .collect();
    release(&shared);
    for thread in started {
        thread.join().unwrap();
    }
}

/// Consumers that sleep until there are items; the broken producer announces one of two.
pub fn queue(_: usize, broken: bool) {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let consume = |shared: &(Mutex<usize>, Condvar)| {
        let mut items = shared.0.lock().unwrap();
        while *items == 0 {
            items = shared.1.wait(items).unwrap();
        }
        *items -= 1;
    };
    let started: Vec<_> = (0..2)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || consume(&shared))
        })
        .collect();
    *shared.0.lock().unwrap() += 2;
    shared.1.notify_one();
    if !broken {
        shared.1.notify_one();
    }
    for thread in started {
        thread.join().unwrap();
    }
}
