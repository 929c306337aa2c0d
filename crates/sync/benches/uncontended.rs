//! The fast paths: one thread takes a native lock and gives it back.

use convoy_sync::{
    AdaptiveLock, ArchSemaphore, Handoff, Mutex, Native, NativeSemaphore, Opportunistic,
    PublishedFix, RawLock, RawSemaphore, Semaphore, TasLock, TicketLock,
};

fn main() {
    divan::main();
}

#[divan::bench(types = [
    NativeSemaphore<Handoff>,
    NativeSemaphore<PublishedFix>,
    NativeSemaphore<Opportunistic>,
    ArchSemaphore<Native, AdaptiveLock<Native>>,
    Semaphore<Native>,
])]
fn down_up<S: RawSemaphore>(bencher: divan::Bencher) {
    let semaphore = S::with_count(1);
    bencher.bench_local(|| {
        semaphore.down();
        semaphore.up();
    });
}

#[divan::bench(types = [TasLock<Native>, TicketLock<Native>, AdaptiveLock<Native>])]
fn lock_unlock<L: RawLock<Native>>(bencher: divan::Bencher) {
    let lock = L::new();
    bencher.bench_local(|| drop(lock.guard()));
}

#[divan::bench]
fn mutex(bencher: divan::Bencher) {
    let mutex = Mutex::native();
    bencher.bench_local(|| {
        mutex.lock();
        mutex.unlock();
    });
}
