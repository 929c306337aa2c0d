//! What no lock of the list does: barrier, once, upgrades, locks taken with interrupts
//! disabled.

use super::{Guarded, Loom, PREEMPTIONS, model, model_within};
use convoy_sync::{QuotaRwLock, RawBarrier, RawLock as _, RawOnce, TasLock};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

fn guarded<L>(lock: L) -> Arc<Guarded<L>> {
    Arc::new(Guarded { lock, value: UnsafeCell::new(0) })
}

/// Each does something before the barrier that the other sees behind it, and the other way round
/// in the next round.
fn meets<const WEAK: bool>() {
    model(|| {
        let barrier = RawBarrier::<Loom<WEAK>>::of(2);
        let shared = Arc::new((barrier, guarded(()), guarded(())));
        let other = Arc::clone(&shared);
        let comes = thread::spawn(move || {
            let (barrier, mine, others) = &*other;
            mine.increment();
            barrier.wait();
            others.increment();
            barrier.wait();
            mine.increment();
        });
        let (barrier, others, mine) = &*shared;
        mine.increment();
        barrier.wait();
        others.increment();
        barrier.wait();
        mine.increment();
        comes.join().expect("the thread does not panic");
        assert_eq!((mine.get(), others.get()), (3, 3));
    });
}

/// One does it, one waits or comes late, and a third only looks.
fn does_once<const WEAK: bool>() {
    model(|| {
        let shared = guarded(RawOnce::<Loom<WEAK>>::default());
        let mut others = Vec::new();
        for looks in [false, true] {
            let shared = Arc::clone(&shared);
            others.push(thread::spawn(move || {
                if !looks {
                    shared.lock.call_once(|| shared.increment());
                    assert_eq!(shared.get(), 1);
                } else if shared.lock.is_done() {
                    assert_eq!(shared.get(), 1);
                }
            }));
        }
        shared.lock.call_once(|| shared.increment());
        assert_eq!(shared.get(), 1);
        for other in others {
            other.join().expect("the thread does not panic");
        }
    });
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
    barrier: meets();
    once: does_once();
    upgrade: upgrades(false);
    try_upgrade: upgrades(true);
    test_and_set_without_interrupts: without_interrupts();
}
