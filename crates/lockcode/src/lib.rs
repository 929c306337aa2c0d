//! The functions of each lock, compiled for this machine under names that
//! `convoy-footprint` looks up: `function:lock`.

use convoy_sync::{AdaptiveLock, Cancel, Lock, Native, every_lock};

/// The platform of the locks of the list.
type P = Native;
/// The inner lock of sleeping locks, as on threads.
type L = AdaptiveLock<Native>;

macro_rules! functions {
    ({} $($variant:ident = $name:literal, $family:literal, $lock:ty, [$($promise:ident)*],
        $about:literal;)+) => {
        $(const _: () = {
            #[unsafe(export_name = concat!("acquire:", $name))]
            fn acquire(lock: &$lock) {
                lock.acquire();
            }
            #[unsafe(export_name = concat!("try_acquire:", $name))]
            fn try_acquire(lock: &$lock) -> bool {
                lock.try_acquire()
            }
            #[unsafe(export_name = concat!("acquire_unless:", $name))]
            fn acquire_unless(lock: &$lock, cancel: Cancel) -> bool {
                lock.acquire_unless(cancel).is_ok()
            }
            #[unsafe(export_name = concat!("release:", $name))]
            fn release(lock: &$lock) {
                lock.release();
            }
            #[unsafe(export_name = concat!("acquire_shared:", $name))]
            fn acquire_shared(lock: &$lock) {
                lock.acquire_shared();
            }
            #[unsafe(export_name = concat!("release_shared:", $name))]
            fn release_shared(lock: &$lock) {
                lock.release_shared();
            }
        };)+
    };
}
every_lock! { functions {} }
