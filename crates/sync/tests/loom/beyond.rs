//! What no lock of the list does: upgrades, locks taken with interrupts disabled.

use super::{Guarded, Loom, PREEMPTIONS, model, model_within};
use convoy_sync::{QuotaRwLock, RawLock as _, TasLock};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

fn guarded<L>(lock: L) -> Arc<Guarded<L>> {
    Arc::new(Guarded { lock, value: UnsafeCell::new(0) })
}

/// An upgradable reader and a concurrent reader: the first changes the value that both read, and
/// reads it again.
fn upgrades<const WEAK: bool>(tries: bool) {
    model_within(PREEMPTIONS, move || {
        let shared = guarded(QuotaRwLock::<Loom<WEAK>>::default());
        let other = Arc::clone(&shared);
        let reads = thread::spawn(move || {
            if other.lock.try_read() {
                other.get();
                other.lock.read_unlock();
            }
        });
        let lock = &shared.lock;
        lock.upgradable();
        let upgraded = !tries || lock.try_upgrade();
        if upgraded {
            if !tries {
                lock.upgrade();
            }
            shared.increment();
            lock.downgrade_to_upgradable();
        }
        assert_eq!(shared.get(), u32::from(upgraded));
        lock.upgradable_unlock();
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
    ($($name:ident: $body:ident($($argument:expr)?);)+) => {
        mod ordered {
            $(#[test]
            fn $name() {
                super::$body::<false>($($argument)?);
            })+
        }

        mod caught_without_orderings {
            $(#[test]
            #[should_panic(expected = "Causality violation")]
            fn $name() {
                super::$body::<true>($($argument)?);
            })+
        }
    };
}

both_ways! {
    upgrade: upgrades(false);
    try_upgrade: upgrades(true);
    test_and_set_without_interrupts: without_interrupts();
}
