//! Labels of files in separate blocks: extended attributes that do not fit into an inode of 128
//! bytes, such as those of `SELinux` on a file system below 512 MiB (`mke2fs.conf`).
//!
//! Files with equal attributes share the block and count in it. A new file looks for one with its
//! attributes, an inode that goes counts itself out. Up to 3.14 both find the block through a cache
//! that all file systems share (`fs/mbcache.c`): one spinlock, `mb_cache_spinlock`, and for each
//! block an entry that is a lock one sleeps for. Any number of new files use it at a time, but an
//! inode that is freed needs it exclusively; all waiters share one queue for all blocks of the
//! machine, and all of them wake whenever an entry with waiters is released. New files wait with
//! their directory's `i_mutex` and a handle of the journal.
//!
//! Sources: `ext4_xattr_block_set` and `ext4_xattr_release_block` in `fs/ext4/xattr.c`, and
//! `mb_cache_entry_find_first`, `mb_cache_entry_get` and `mb_cache_entry_release` in `fs/mbcache.c`
//! of 3.4; no change up to 3.7 is known. That it mattered on such a machine says the cover letter
//! of "ext4: increase mbcache scalability" (July 2013): with finer locks AIM7's `fserver` gains
//! 6.5 %, `new_fserver` 4.6 % on 80 CPUs.

use crate::lock_rules::LockRules;
use crate::locks::{Field, Line, Spin, WaitQueue};
use convoy_machine::{Here, Sim};
use convoy_sync::RawLock;
use std::rc::Rc;

/// Added to an entry's count while an inode that is freed uses it (`MB_CACHE_WRITER`).
const LEAVING: u32 = 1 << 15;

/// The cache of all file systems.
pub(crate) struct Cache {
    /// `mb_cache_spinlock`, and the list of unused entries that it guards.
    lock: Line<Spin>,
    /// `mb_cache_queue`.
    queue: Line<WaitQueue>,
}

impl Cache {
    /// In simulated memory.
    pub(super) fn place(locks: LockRules) -> Rc<Sim<Self>> {
        let cache = Here::place(Self { lock: Line(locks.spin()), queue: Line(WaitQueue::new()) });
        cache.lock.name("mb_cache_spinlock");
        Rc::new(cache)
    }
}

/// Cache entry of a block.
struct Entry {
    /// Number of its users (`e_used`).
    used: Field<u32>,
    /// Number of its waiters (`e_queued`).
    queued: Field<u32>,
}

/// The block with the labels of one file system; it has room for the counts of 1024 files.
pub(super) struct Labels {
    cache: Rc<Sim<Cache>>,
    entry: Sim<Line<Entry>>,
}

impl Labels {
    /// None counted.
    pub(super) fn new(cache: &Rc<Sim<Cache>>) -> Self {
        let entry = Entry { used: Field::new(0), queued: Field::new(0) };
        Self { cache: Rc::clone(cache), entry: Here::place(Line(entry)) }
    }

    /// Takes the entry, for oneself if `leaving`.
    pub(super) fn enter(&self, leaving: bool) {
        let entry = &self.entry;
        let wait_while = |busy: &dyn Fn(u32) -> bool| {
            while busy(entry.used.read()) {
                entry.queued.update(|queued| queued + 1);
                let seen = self.cache.queue.prepare();
                self.cache.lock.unlock();
                self.cache.queue.sleep(seen);
                self.cache.lock.lock();
                entry.queued.update(|queued| queued - 1);
            }
        };
        self.cache.lock.lock();
        if leaving {
            wait_while(&|used| used > 0);
            entry.used.update(|used| used + 1 + LEAVING);
        } else {
            // Counted before it waits: new files go before inodes that leave.
            entry.used.update(|used| used + 1);
            wait_while(&|used| used >= LEAVING);
        }
        self.cache.lock.unlock();
    }

    /// Releases it.
    pub(super) fn leave(&self, leaving: bool) {
        self.cache.lock.hold(|| {
            if self.entry.queued.read() > 0 {
                self.cache.queue.wake_all();
            }
            self.entry.used.update(|used| used - 1 - if leaving { LEAVING } else { 0 });
        });
    }
}
