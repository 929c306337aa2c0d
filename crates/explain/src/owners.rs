//! Events of locks: owners, waiters, stalls.

use crate::analysis::Analysis;
use crate::locks::OwnerState;
use crate::stall::{Stall, Why};
use crate::task::{Place, Since};
use convoy_machine::Record;
use convoy_sync::{LockEvent, TaskId};

impl Analysis {
    /// Handles `event` of the lock at `address` for the task `id`.
    pub(crate) fn lock(&mut self, record: &Record, event: LockEvent, address: usize, id: TaskId) {
        let lock = self.locks.at(address);
        match event {
            LockEvent::Contended => self.waits(record, lock, id),
            LockEvent::Acquired => self.acquired(record, lock, id),
            LockEvent::Handoff => {
                self.locks.class_of(lock).handoffs += 1;
                self.acquired(record, lock, id);
            }
            LockEvent::Released => self.released(record.at, lock, id),
            LockEvent::Stolen => self.locks.class_of(lock).stolen += 1,
            LockEvent::Woken => self.locks.class_of(lock).woken += 1,
            LockEvent::Interrupted | LockEvent::TimedOut => {
                if self.stops_waiting(record.at, lock, id).is_some() {
                    self.locks.class_of(lock).given_up += 1;
                }
            }
        }
    }

    fn waits(&mut self, record: &Record, lock: u32, id: TaskId) {
        let at = record.at;
        self.tasks.at(id).waits.push(Since { lock, at, passes: false });
        self.waiters += 1;
        let this = &mut self.locks.all[lock as usize];
        if this.waiters == 0 {
            this.wanted_since = at;
        }
        this.waiters += 1;
        let waiters = this.waiters;
        if let Some(stall) = &mut this.stall {
            stall.waiters_max = stall.waiters_max.max(waiters);
        }
        let class = self.locks.class_of(lock);
        class.contended += 1;
        class.waiters_max = class.waiters_max.max(waiters);
        self.look(lock);
    }

    /// Ends the wait of `id`, and returns its start time if there was one.
    fn stops_waiting(&mut self, at: u64, lock: u32, id: TaskId) -> Option<u64> {
        let waits = &mut self.tasks.at(id).waits;
        let since = waits.remove(waits.iter().rposition(|wait| wait.lock == lock)?).at;
        self.waiters -= 1;
        let this = &mut self.locks.all[lock as usize];
        this.waiters -= 1;
        if this.waiters == 0 {
            let wanted = at.saturating_sub(this.wanted_since.max(self.from));
            self.locks.class_of(lock).wanted += wanted;
        }
        self.look(lock);
        Some(since)
    }

    fn acquired(&mut self, record: &Record, lock: u32, id: TaskId) {
        let at = record.at;
        let waited = self.stops_waiting(record.at, lock, id);
        // After a hand-off, the report of the new owner itself changes nothing.
        if self.locks.all[lock as usize].holders.contains(&id) {
            return;
        }
        let giver = self.tasks.label(record.task);
        let runs = self.tasks.at(id).place == Place::Running;
        let task = self.tasks.at(id);
        let passes = runs && id == record.task && self.cpus[record.cpu].switching;
        let held = Since { lock, at, passes };
        task.holds.push(held);
        if !runs {
            (task.granted, task.giver) = (Some(held), giver);
        }
        let this = &mut self.locks.all[lock as usize];
        let released = this.released.take();
        let changed = this.last_owner.replace(id) != Some(id);
        if this.holders.is_empty() {
            this.owned_since = at;
        }
        this.holders.push(id);
        if !runs {
            if this.off == 0 {
                this.off_since = at;
            }
            this.off += 1;
        }
        let class = self.locks.class_of(lock);
        class.acquisitions += 1;
        class.owner_changes += u64::from(changed);
        if let (Some(released), true) = (released, runs) {
            class.handoff.record(at.saturating_sub(released) / 1000);
        }
        if let Some(since) = waited {
            let span = at.saturating_sub(since);
            class.wait_sum += span;
            class.wait.record(span / 1000);
            self.locks.all[lock as usize].wait_sum += span;
        }
        self.look(lock);
    }

    fn released(&mut self, at: u64, lock: u32, id: TaskId) {
        let holds = &mut self.tasks.at(id).holds;
        let Some(index) = holds.iter().rposition(|held| held.lock == lock) else { return };
        let span = at.saturating_sub(holds.remove(index).at);
        let from = self.from;
        let this = &mut self.locks.all[lock as usize];
        this.holders.retain(|&holder| holder != id);
        this.released = (this.waiters > 0).then_some(at);
        let free = this.holders.is_empty();
        let owned = at.saturating_sub(this.owned_since.max(from));
        let class = self.locks.class_of(lock);
        class.hold.record(span / 1000);
        if free {
            class.owned += owned;
        }
        self.look(lock);
    }

    /// Records that an owner of `lock` left its CPU or got one.
    pub(crate) fn owner_off(&mut self, lock: u32, off: bool) {
        let (now, from) = (self.now, self.from);
        let this = &mut self.locks.all[lock as usize];
        if off {
            if this.off == 0 {
                this.off_since = now;
            }
            this.off += 1;
            self.look(lock);
        } else {
            if this.off == 0 {
                return;
            }
            this.off -= 1;
            if this.off == 0 {
                let span = now.saturating_sub(this.off_since.max(from));
                self.locks.class_of(lock).owner_off += span;
            }
            self.look(lock);
        }
    }

    /// Starts a stall if the lock is now stalled.
    fn start(&mut self, lock: u32) {
        let this = &self.locks.all[lock as usize];
        if this.waiters == 0 || this.off == 0 || this.stall.is_some() {
            return;
        }
        let off = |id: &&TaskId| self.tasks.get(**id).is_some_and(|t| t.place != Place::Running);
        let Some(&owner) = this.holders.iter().find(off) else { return };
        let now = self.now;
        let (class, waiters) = (this.class, this.waiters);
        let task = self.tasks.at(owner);
        let why = match task.place {
            _ if task.granted.is_some() => Why::Given,
            Place::Asleep(_) if !task.waits.is_empty() => Why::Nested,
            Place::Asleep(_) => Why::Slept,
            _ => Why::Preempted,
        };
        let queued = matches!(task.place, Place::Runnable(_)).then_some((now, task.cpu));
        let stall = Stall {
            class,
            from: now,
            to: now,
            owner,
            label: task.label,
            job: task.job,
            call: task.call,
            giver: task.giver,
            why,
            woken: queued,
            waiters,
            waiters_max: waiters,
            idle: self.cpus.iter().map(|cpu| cpu.idle_at(now)).collect(),
            ran: Vec::new(),
            ended_on: task.cpu,
            chain: Vec::new(),
        };
        self.locks.all[lock as usize].stall = Some(Box::new(stall));
        self.stalled.push(lock);
    }

    /// Adds the time since the last change to the account of the owner's state, and updates the
    /// state.
    pub(crate) fn see_owner(&mut self, lock: u32) {
        let state = |id: &TaskId| match self.tasks.get(*id).map(|task| task.place) {
            Some(Place::Asleep(_) | Place::Dead) => OwnerState::Asleep,
            Some(Place::Runnable(_)) => OwnerState::Queued,
            Some(Place::Running) | None => OwnerState::Running,
        };
        let this = &mut self.locks.all[lock as usize];
        this.by_owner[this.owner as usize] += self.now.saturating_sub(this.owner_since);
        this.owner_since = self.now;
        this.owner = this.holders.iter().map(state).max().unwrap_or_default();
    }

    /// Ends the stall of `lock` if it is over, and starts one if the lock is now stalled.
    fn look(&mut self, lock: u32) {
        self.see_owner(lock);
        let this = &mut self.locks.all[lock as usize];
        if this.waiters > 0 && this.off > 0 {
            return self.start(lock);
        }
        let Some(mut stall) = this.stall.take() else { return };
        self.stalled.retain(|&other| other != lock);
        let now = self.now;
        stall.to = now;
        for (idle, cpu) in stall.idle.iter_mut().zip(&self.cpus) {
            *idle = cpu.idle_at(now).saturating_sub(*idle);
        }
        let task = self.tasks.at(stall.owner);
        stall.ended_on = task.cpu;
        stall.chain = task.path.last();
        self.timeline.add_stall(stall.from.max(self.from), now);
        let (class, span) = (stall.class, stall.span());
        if self.stalls.close(stall) {
            self.locks.classes[class as usize].convoy += span;
        }
    }

    /// Updates the sums of current states.
    pub(crate) fn settle_locks(&mut self) {
        let (now, from) = (self.now, self.from);
        for lock in &mut self.locks.all {
            let class = &mut self.locks.classes[lock.class as usize];
            let settle = |goes_on: bool, since: &mut u64, sum: &mut u64| {
                if goes_on {
                    *sum += now.saturating_sub((*since).max(from));
                    *since = now;
                }
            };
            settle(!lock.holders.is_empty(), &mut lock.owned_since, &mut class.owned);
            settle(lock.off > 0, &mut lock.off_since, &mut class.owner_off);
            settle(lock.waiters > 0, &mut lock.wanted_since, &mut class.wanted);
        }
    }
}
