//! How a handle joins the running transaction (`start_this_handle`).

use super::super::rules::DiskRules;
use super::{Journal, MAX_AGE_NS, State, Transaction};
use crate::base::Base;
use convoy_machine::Here;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Result of an attempt to join the running transaction.
enum Joined {
    Yes,
    /// There is no running transaction.
    Absent,
    /// It is being committed, or the caller's credits do not fit: wait for the next, since the
    /// event `seen`. `ask` is the transaction if its commit is to be requested.
    Full {
        ask: Option<u64>,
        seen: u32,
    },
    /// The journal is full.
    NoSpace,
}

impl Journal {
    /// Joins the running transaction; returns its number.
    pub(super) fn start(self: &Rc<Self>, base: &Base, credits: u32) -> u64 {
        assert!(credits <= self.most(), "a handle of {credits} credits never fits the journal");
        self.count(|stats| stats.handles += 1);
        let mut waited = false;
        // The handle is allocated.
        base.sched.might_sleep();
        let mut transaction = self.allocate(base);
        loop {
            Here::pass(base.costs.journal_handle);
            match self.read_state(|| self.join(credits)) {
                Joined::Yes => break,
                // ext4 looks for a transaction again when it has allocated one.
                Joined::Absent if self.ext4() && !transaction => transaction = self.allocate(base),
                Joined::Absent => {
                    self.begin(base);
                    transaction = false;
                }
                Joined::NoSpace => self.make_room(base),
                Joined::Full { ask, seen } => {
                    waited = true;
                    if let Some(id) = ask {
                        self.request(id);
                    }
                    self.hot.unlocked.sleep(seen);
                }
            }
        }
        if waited {
            self.count(|stats| stats.waited += 1);
        }
        self.running_id().expect("it cannot end while our handle is open")
    }

    /// Allocates a transaction, which may sleep, if there is none; returns whether there was none.
    fn allocate(&self, base: &Base) -> bool {
        let absent = self.running_id().is_none();
        if absent && self.ext4() {
            base.sched.might_sleep();
        }
        absent
    }

    fn running_id(&self) -> Option<u64> {
        self.state.borrow().running.as_ref().map(|transaction| transaction.id)
    }

    /// The caller holds `j_state_lock`.
    fn join(&self, credits: u32) -> Joined {
        // ext4 adds its credits before it compares, unless the transaction is locked.
        let counts = self.ext4() && self.is_open();
        if counts {
            self.hot.counts.credits.get();
        }
        let found = self.find(credits);
        let enter = |running: &mut Transaction| {
            running.updates += 1;
            running.credits += credits;
        };
        match (&found, self.rules.disk) {
            (Joined::Yes, DiskRules::Ext3) => self.hot.handle.hold(|updates| {
                updates.update(|count| count + 1);
                self.with_running(enter);
            }),
            (Joined::Yes, DiskRules::Ext4) => {
                self.with_running(enter);
                self.hot.counts.updates.get();
                self.hot.counts.handles.get();
            }
            _ if counts => {
                self.hot.counts.credits.put();
            }
            _ => (),
        }
        found
    }

    /// Whether handles may join the running transaction.
    fn is_open(&self) -> bool {
        self.state.borrow().running.as_ref().is_some_and(|running| !running.locked)
    }

    /// What a handle of `credits` finds.
    fn find(&self, credits: u32) -> Joined {
        let (full, ask) = {
            let state = self.state.borrow();
            let Some(running) = &state.running else { return Joined::Absent };
            let full = running.locked || running.outstanding() + credits > self.most();
            let ask = !running.locked && state.requested < running.id;
            (full, ask.then_some(running.id))
        };
        match full {
            true => Joined::Full { ask, seen: self.hot.unlocked.prepare() },
            false if self.lacks_space(&self.state.borrow()) => Joined::NoSpace,
            false => Joined::Yes,
        }
    }

    /// Returns whether the journal is too full for another transaction.
    pub(super) fn lacks_space(&self, state: &State) -> bool {
        let free = self.options.blocks.saturating_sub(state.log.used);
        match self.rules.disk {
            DiskRules::Ext3 => free < self.most(),
            DiskRules::Ext4 => {
                // `jbd_space_needed` and an eighth in reserve.
                let committing = (state.committing.len() + state.shadow.len()) as u32;
                free.saturating_sub(32) / 8 * 7 < self.most() + committing
            }
        }
    }

    /// Starts a new running transaction, unless another task was faster.
    fn begin(self: &Rc<Self>, base: &Base) {
        let expires_ns = Here::now_ns() + MAX_AGE_NS;
        let new = self.write_state(|| {
            let mut state = self.state.borrow_mut();
            if state.running.is_some() {
                return false;
            }
            state.last_id += 1;
            state.running = Some(Transaction {
                id: state.last_id,
                locked: false,
                updates: 0,
                credits: 0,
                metadata: BTreeSet::new(),
                data: BTreeSet::new(),
                expires_ns,
            });
            true
        });
        if new {
            let journal = Rc::clone(self);
            let expired = move |_: &_| journal.hot.wanted.wake_all();
            base.sched.agendas.timer_at(expires_ns, Box::new(expired));
        }
    }
}
