//! What no lock of the list does: downgrades, locks taken with interrupts disabled.

use super::{Guarded, Loom, PREEMPTIONS, model, model_within};
use convoy_sync::{QuotaRwLock, RawLock as _, TasLock};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

fn guarded<L>(lock: L) -> Arc<Guarded<L>> {
    Arc::new(Guarded { lock, value: UnsafeCell::new(0) })
}

/// A writer becomes a reader and reads its value next to a concurrent reader.
fn downgrades<const WEAK: bool>() {
    model_within(PREEMPTIONS, || {
        let shared = guarded(QuotaRwLock::<Loom<WEAK>>::default());
        let other = Arc::clone(&shared);
        let reads = thread::spawn(move || {
            if other.lock.try_read() {
                other.get();
                other.lock.read_unlock();
            }
        });
        shared.lock.write();
        shared.increment();
        shared.lock.downgrade();
        assert_eq!(shared.get(), 1);
        shared.lock.read_unlock();
        reads.join().expect("the thread does not panic");
    });
}

fn without_interrupts<const WEAK: bool>() {
    model(|| {
        let shared = guarded(TasLock::<Loom<WEAK>>::default());
        let other = Arc::clone(&shared);
        let takes = thread::spawn(move || {
            other.lock.lock_irqsave();
            other.increment();
            other.lock.unlock_irqrestore(());
        });
        shared.lock.lock_irqsave();
        shared.increment();
        shared.lock.unlock_irqrestore(());
        takes.join().expect("the thread does not panic");
    });
}

/// Each of them, and that loom would notice without orderings.
macro_rules! both_ways {
    ($($name:ident: $body:ident;)+) => {
        mod ordered {
            $(#[test]
            fn $name() {
                super::$body::<false>();
            })+
        }

        mod caught_without_orderings {
            $(#[test]
            #[should_panic(expected = "Causality violation")]
            fn $name() {
                super::$body::<true>();
            })+
        }
    };
}

both_ways! {
    downgrade: downgrades;
    test_and_set_without_interrupts: without_interrupts;
}
