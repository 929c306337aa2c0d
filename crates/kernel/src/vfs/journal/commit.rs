//! The commit thread.

use super::super::rules::CommitLocks;
use super::{BUFFERS, Block, Journal, Transaction};
use crate::base::Base;
use crate::block::{Batch, REQUEST_PAGES};
use crate::costs::spend;
use crate::pages::PAGE;
use crate::sched::scheduler::Sched;
use crate::sched::task::Policy;
use convoy_machine::Here;
use std::collections::BTreeSet;
use std::rc::Rc;

impl Journal {
    /// Starts the commit thread.
    pub(crate) fn mount(self: &Rc<Self>, base: &Rc<Base>) {
        let (journal, inner) = (Rc::clone(self), Rc::clone(base));
        let body = move |_: &Sched| journal.kjournald(&inner);
        let policy = Policy::Normal { nice: 0 };
        let kthread = base.sched.kthreads.create(("kjournald", None), None, policy, Box::new(body));
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

    /// The commit thread. On ext4 it holds `j_state_lock` while it checks for a request, before
    /// and after it sleeps.
    fn kjournald(&self, base: &Base) {
        let stops = || self.kthread.borrow().is_none();
        let due = || {
            let state = self.state.borrow();
            state.running.as_ref().is_some_and(|running| {
                state.requested >= running.id || running.expires_ns <= Here::now_ns()
            })
        };
        loop {
            let seen = self.step(|| self.hot.wanted.prepare());
            if due() {
                self.commit_running(base);
            } else if stops() {
                return;
            } else {
                self.hot.wanted.sleep(seen);
            }
        }
    }

    /// Runs a step of the commit thread, on ext4 as the writer of `j_state_lock`.
    fn step<R>(&self, body: impl FnOnce() -> R) -> R {
        if self.ext4() { self.write_state(body) } else { body() }
    }

    /// Starts writing `block`, unless the commit had to take a copy: the next block of the journal
    /// is found under `j_state_lock`, and the block goes to the list of blocks that are written.
    fn log_block(&self, block: Block) {
        if !self.ext4() {
            return self.hot.list.hold(|list| list.update(|head| head.wrapping_sub(1)));
        }
        self.write_state(|| {
            let state = &mut *self.state.borrow_mut();
            if state.committing.remove(&block) {
                state.shadow.insert(block);
            }
        });
        self.refile(block);
    }

    /// Moves a block of the commit to another of its lists.
    fn refile(&self, block: Block) {
        let list = || self.hot.list.hold(|list| list.update(|head| head.wrapping_sub(1)));
        self.buffers[block.slot(BUFFERS)].refile(list);
    }

    /// Called when the blocks have been written: they are put on the list of those that the commit
    /// record makes valid, and the tasks that wait for them wake.
    fn logged(&self, blocks: &BTreeSet<Block>) {
        if self.ext4() {
            for &block in blocks {
                self.refile(block);
                self.state.borrow_mut().shadow.remove(&block);
            }
            self.hot.shadow.wake_all();
        }
    }

    /// Locks the running transaction against further handles, waits for its open ones, and lets the
    /// next begin.
    fn close_running(&self, base: &Base) -> Transaction {
        if !self.ext4() {
            self.write_state(|| self.with_running(|running| running.locked = true));
            self.hot.updates.wait(|| !self.has_handles());
            let transaction = self.write_state(|| self.take_running());
            self.hot.unlocked.wake_all();
            return transaction;
        }
        let held = self.rules.commit == CommitLocks::Held;
        loop {
            let closed = self.write_state(|| {
                self.with_running(|running| running.locked = true);
                let seen = self.hot.updates.prepare();
                self.hot.counts.updates.read();
                if self.has_handles() {
                    return Err(seen);
                }
                Ok(held.then(|| {
                    self.clean(base);
                    self.switch()
                }))
            });
            match closed {
                Ok(Some(transaction)) => return transaction,
                Ok(None) => {
                    self.clean(base);
                    return self.write_state(|| self.switch());
                }
                Err(seen) => self.hot.updates.sleep(seen),
            }
        }
    }

    fn has_handles(&self) -> bool {
        self.with_running(|running| running.updates > 0)
    }

    fn take_running(&self) -> Transaction {
        self.state.borrow_mut().running.take().expect("only this thread takes it")
    }

    /// On ext4: asks of each block in the journal whether it has been written in place, walks the
    /// table of revoked blocks and clears the next.
    fn clean(&self, base: &Base) {
        self.hot.list.hold(|_| {
            let asked: Vec<_> = {
                let state = self.state.borrow();
                let running = state.running.as_ref().expect("only this thread takes it");
                let ask = |block| (block, running.metadata.contains(&block));
                state.log.blocks().map(ask).collect()
            };
            for (block, mine) in asked {
                self.buffers[block.slot(BUFFERS)].ask(mine);
            }
        });
        spend(base.costs.copy(PAGE as usize));
    }

    /// On ext4: the next transaction may begin. Tasks that wait for it find the lock taken.
    fn switch(&self) -> Transaction {
        let transaction = self.take_running();
        self.state.borrow_mut().committing.clone_from(&transaction.metadata);
        self.hot.unlocked.wake_all();
        transaction
    }

    /// `journal_commit_transaction`.
    fn commit_running(&self, base: &Base) {
        let transaction = self.close_running(base);
        self.disk.write_pages(base, transaction.data.iter().copied());
        self.step(|| ());
        let blocks = transaction.metadata.len();
        for &block in &transaction.metadata {
            self.log_block(block);
            spend(base.costs.commit_block);
            base.sched.cond_resched();
        }
        if blocks > 0 {
            self.write_log(base, &transaction.metadata);
        }
        self.finish(&transaction);
        self.count(|stats| {
            stats.commits += 1;
            stats.blocks += blocks as u64;
        });
        self.hot.done.wake_all();
    }

    /// Writes descriptor, `blocks` and commit record. On ext4 the two others also find their places
    /// under `j_state_lock`, as the commit enters each phase; and it may move the journal's tail.
    fn write_log(&self, base: &Base, blocks: &BTreeSet<Block>) {
        self.step(|| ());
        let batch = Batch::new();
        for _ in 0..(blocks.len() + 1).div_ceil(REQUEST_PAGES) {
            self.disk.submit(base, &batch);
        }
        self.step(|| ());
        if !self.options.async_commit {
            batch.wait();
            self.logged(blocks);
            self.disk.submit(base, &batch);
        }
        self.step(|| ());
        batch.wait();
        if self.options.async_commit {
            self.logged(blocks);
        }
        self.step(|| ());
        if self.ext4() {
            self.clean_tail(base, self.most());
        }
    }

    /// The transaction is on the disk: its blocks remain to be written in place.
    fn finish(&self, transaction: &Transaction) {
        if self.ext4() {
            for &block in &transaction.metadata {
                self.hot.list.hold(|_| ());
                self.refile(block);
            }
        }
        self.write_state(|| {
            let finish = || {
                let mut state = self.state.borrow_mut();
                state.committed = transaction.id;
                if !transaction.metadata.is_empty() {
                    state.log.push(&transaction.metadata);
                }
                if !self.ext4() {
                    state.log.move_tail(0);
                }
            };
            if self.ext4() { self.hot.list.hold(|_| finish()) } else { finish() }
        });
    }
}
