//! The fast paths: one thread acquires and releases a native lock of the list.

use convoy_sync::{AdaptiveLock, Lock, LockName, Native, with_lock};

fn main() {
    divan::main();
}

fn take<T: Lock>(bencher: divan::Bencher<'_, '_>) {
    let lock = T::unlocked();
    bencher.bench_local(|| {
        lock.acquire();
        lock.release();
    });
}

#[divan::bench(args = LockName::ALL)]
fn acquire_release(bencher: divan::Bencher<'_, '_>, name: LockName) {
    with_lock!(name, Native, AdaptiveLock<Native>, T => take::<T>(bencher));
}
