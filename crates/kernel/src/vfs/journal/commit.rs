//! The commit thread, and making room in the journal.

use super::{Block, Journal};
use crate::base::Base;
use crate::block::{Batch, REQUEST_PAGES};
use crate::costs::spend;
use crate::sched::scheduler::Sched;
use crate::sched::task::Policy;
use convoy_machine::Here;
use std::rc::Rc;

impl Journal {
    /// Writes the blocks of the oldest transaction in place.
    pub(super) fn checkpoint(&self, base: &Base) {
        base.under(&self.hot.checkpoint, || {
            let blocks = self.read_state(|| {
                let state = self.state.borrow();
                state.log.oldest().filter(|_| self.lacks_space(&state))
            });
            // Somebody else may have made room.
            let Some(blocks) = blocks else { return };
            self.disk.write_pages(base, blocks.into_iter().map(Block::place));
            self.write_state(|| self.state.borrow_mut().log.oldest_written());
            self.count(|stats| stats.checkpoints += 1);
        });
    }

    /// Starts the commit thread.
    pub(crate) fn mount(self: &Rc<Self>, base: &Rc<Base>) {
        let (journal, inner) = (Rc::clone(self), Rc::clone(base));
        let body = move |_: &Sched| journal.kjournald(&inner);
        let policy = Policy::Normal { nice: 0 };
        let kthread = base.sched.kthreads.create("kjournald", None, policy, Box::new(body));
        let kthread = kthread.expect("room for kjournald");
        self.kthread.replace(Some(Rc::clone(&kthread)));
        base.sched.kthreads.wake(&kthread);
    }

    /// Commits what there is and ends the commit thread.
    pub(crate) fn unmount(&self, base: &Base) {
        self.commit_all();
        let kthread = self.kthread.take();
        if let Some(kthread) = kthread {
            kthread.stop(&base.sched);
        }
    }

    /// The commit thread.
    fn kjournald(&self, base: &Base) {
        let stops = || self.kthread.borrow().is_none();
        loop {
            let due = || {
                let state = self.state.borrow();
                state.running.as_ref().is_some_and(|running| {
                    state.requested >= running.id || running.expires_ns <= Here::now_ns()
                })
            };
            self.hot.wanted.wait(|| due() || stops());
            if due() {
                self.commit_running(base);
            } else if stops() {
                return;
            }
        }
    }

    /// Starts writing `block`, unless the commit had to take a copy: the next block of the journal
    /// is found under `j_state_lock`.
    fn log_block(&self, block: Block) {
        if self.ext4() {
            self.write_state(|| {
                let state = &mut *self.state.borrow_mut();
                if state.committing.remove(&block) {
                    state.shadow.insert(block);
                }
            });
        }
    }

    /// Called when the blocks have been written: wakes the tasks that wait for them.
    fn logged(&self, blocks: usize) {
        if self.state.borrow().shadow.is_empty() {
            return;
        }
        for _ in 0..blocks {
            self.hot.list.hold(|list| list.update(|head| head.wrapping_sub(1)));
        }
        self.state.borrow_mut().shadow.clear();
        self.hot.shadow.wake_all();
    }

    /// `journal_commit_transaction`.
    fn commit_running(&self, base: &Base) {
        self.write_state(|| self.with_running(|running| running.locked = true));
        self.hot.updates.wait(|| self.with_running(|running| running.updates == 0));
        let transaction = self.write_state(|| {
            let transaction = self.state.borrow_mut().running.take();
            let transaction = transaction.expect("only this thread takes it");
            if self.ext4() {
                self.state.borrow_mut().committing.clone_from(&transaction.metadata);
                // All of them find the lock taken.
                self.hot.unlocked.wake_all();
            }
            transaction
        });
        if !self.ext4() {
            self.hot.unlocked.wake_all();
        }
        self.disk.write_pages(base, transaction.data.iter().copied());
        let blocks = transaction.metadata.len();
        for &block in &transaction.metadata {
            self.log_block(block);
            self.hot.list.hold(|list| list.update(|head| head.wrapping_sub(1)));
            spend(base.costs.commit_block);
            base.sched.cond_resched();
        }
        if blocks > 0 {
            // One descriptor before the blocks, one commit record after them.
            let batch = Batch::new();
            for _ in 0..(blocks + 1).div_ceil(REQUEST_PAGES) {
                self.disk.submit(base, &batch);
            }
            if !self.options.async_commit {
                batch.wait();
                self.logged(blocks);
                self.disk.submit(base, &batch);
            }
            batch.wait();
            self.logged(blocks);
        }
        self.write_state(|| {
            let mut state = self.state.borrow_mut();
            state.committed = transaction.id;
            if blocks > 0 {
                state.log.push(&transaction.metadata);
            }
        });
        self.count(|stats| {
            stats.commits += 1;
            stats.blocks += blocks as u64;
        });
        self.hot.done.wake_all();
    }
}
