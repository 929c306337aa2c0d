//! The block layer: one disk, its request queue, its interrupts, completion in the BLOCK softirq.
//!
//! A request is queued under the disk's `queue_lock` with interrupts off. The machine's disk serves
//! one request after the other in the same time each. Its interrupt, on CPU 0, removes it from the
//! queue, again under `queue_lock`, and raises the BLOCK softirq, which wakes the waiters. A RAM
//! disk does not have a queue: its requests are complete when they have been submitted.

use crate::base::Base;
use crate::costs::spend;
use crate::locks::{Field, Guarded, Line, WaitQueue};
use crate::sched::scheduler::Sched;
use crate::softirq::Vector;
use convoy_machine::{DiskTime, Here, Sim};
use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// CPU that takes the disk's interrupts: the first, since their affinity is not changed.
const IRQ_CPU: usize = 0;

/// Longest request, pages (`BLK_DEF_MAX_SECTORS`, 512 KiB).
pub(crate) const REQUEST_PAGES: usize = 128;

/// A disk.
pub(crate) struct Disk {
    hot: Sim<Line<Guarded<Field<u32>>>>,
    /// Whether requests are done when they have been submitted.
    ram: bool,
    /// Completed requests that wait for the softirq.
    completed: RefCell<VecDeque<Rc<Batch>>>,
    requests: Cell<u64>,
}

/// Requests that a task waits for together.
pub(crate) struct Batch {
    left: Cell<usize>,
    done: Sim<Line<WaitQueue>>,
}

impl Batch {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { left: Cell::new(0), done: Here::place(Line(WaitQueue::new())) })
    }

    fn one_done(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.done.wake_all();
        }
    }

    /// Whether all are done.
    pub(crate) fn is_done(&self) -> bool {
        self.left.get() == 0
    }

    /// Waits until all are done.
    pub(crate) fn wait(&self) {
        self.done.wait(|| self.is_done());
    }
}

impl Disk {
    /// The disk `time` of the machine, for the kernel of `sched`.
    pub(crate) fn new(sched: &Sched, time: &DiskTime) -> Rc<Self> {
        let disk = Rc::new(Self {
            hot: Here::place(Line(sched.locks.guarded(Field::new(0)))),
            ram: time.latency_ns == 0.0,
            completed: RefCell::default(),
            requests: Cell::new(0),
        });
        disk.hot.name("queue_lock");
        if !disk.ram {
            let inner = Rc::clone(&disk);
            sched.softirqs.open(Vector::Block, Rc::new(move |_| inner.softirq()));
        }
        disk
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Submits one request as part of `batch`.
    pub(crate) fn submit(self: &Rc<Self>, base: &Base, batch: &Rc<Batch>) {
        spend(base.costs.disk_request);
        self.requests.set(self.requests.get() + 1);
        if self.ram {
            return;
        }
        batch.left.set(batch.left.get() + 1);
        self.hot.hold_irq(|queued| {
            queued.update(|count| count + 1);
            let (disk, batch) = (Rc::clone(self), Rc::clone(batch));
            let handler = move |sched: &Sched| disk.interrupt(sched, batch);
            base.sched.agendas.interrupt_at(IRQ_CPU, Here::disk_request(), Box::new(handler));
        });
    }

    fn interrupt(&self, sched: &Sched, batch: Rc<Batch>) {
        self.hot.hold_irq(|queued| queued.update(|count| count - 1));
        self.completed.borrow_mut().push_back(batch);
        sched.softirqs.raise(Vector::Block);
    }

    fn softirq(&self) {
        loop {
            let next = self.completed.borrow_mut().pop_front();
            let Some(batch) = next else { return };
            batch.one_done();
        }
    }

    /// Writes `pages`, given as file and page, as few requests as adjacent pages allow, and waits.
    pub(crate) fn write_pages(
        self: &Rc<Self>,
        base: &Base,
        pages: impl IntoIterator<Item = (u64, u64)>,
    ) {
        let batch = Batch::new();
        let mut last: Option<(u64, u64)> = None;
        let mut length = 0;
        for page in pages {
            let adjacent = last.is_some_and(|(file, number)| (file, number + 1) == page);
            if !adjacent || length == REQUEST_PAGES {
                self.submit(base, &batch);
                length = 0;
            }
            length += 1;
            last = Some(page);
        }
        batch.wait();
    }
}
