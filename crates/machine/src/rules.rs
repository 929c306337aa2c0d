//! Rules that every lock of an operating system keeps, checked at each acquisition in builds with
//! debug assertions, on whatever path it lies: the lock has a name, and no lock is taken both in
//! interrupts and where such an interrupt may come. The rules apply to all locks of a name, from
//! the first acquisition to the last: a violation is detected even if the interrupt does not arrive
//! while the lock is held.
//!
//! Readers of a reader/writer lock count like writers, and a `try_lock` like a `lock`.

use crate::names::Names;
use crate::os::Context;
use convoy_sync::TaskId;
use core::cell::RefCell;
use core::panic::Location;
use std::collections::BTreeMap;

/// Where a lock was taken.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) site: Option<&'static Location<'static>>,
    pub(crate) task: TaskId,
    pub(crate) cpu: usize,
    pub(crate) at_ns: u64,
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(site) = self.site {
            write!(f, "{site}, ")?;
        }
        write!(f, "task {} on CPU {} at {} ns", self.task, self.cpu, self.at_ns)
    }
}

/// The first acquisition of the locks of one name of each kind that matters.
#[derive(Default)]
struct Usage {
    /// In the handler of an interrupt, and with interrupts enabled.
    hard: [Option<Place>; 2],
    /// In the handler of a software interrupt, and where such may run.
    soft: [Option<Place>; 2],
}

/// The locks of one name, and whether they are the locks inside of locks of that name. A run looks
/// this up at each acquisition, so it does not allocate a text.
type Class = (&'static str, bool);

/// The state of the rules for the locks of a machine.
#[derive(Default)]
pub(crate) struct Rules {
    names: RefCell<Names>,
    usage: RefCell<BTreeMap<Class, Usage>>,
    /// The acquisition that each CPU is about to make.
    sites: RefCell<Vec<Option<&'static Location<'static>>>>,
}

impl Rules {
    pub(crate) fn name(&self, address: usize, bytes: usize, name: &'static str) {
        self.names.borrow_mut().add(address, bytes, name);
    }

    pub(crate) fn site(&self, cpu: usize, site: &'static Location<'static>) {
        let mut sites = self.sites.borrow_mut();
        let cpus = sites.len().max(cpu + 1);
        sites.resize(cpus, None);
        sites[cpu] = Some(site);
    }

    fn class_of(&self, address: usize) -> Option<Class> {
        let (start, name) = self.names.borrow().covering(address)?;
        Some((name, start != address))
    }

    /// The place of the acquisition that `cpu` is about to make, if it said so.
    pub(crate) fn take_site(&self, cpu: usize) -> Option<&'static Location<'static>> {
        self.sites.borrow_mut().get_mut(cpu)?.take()
    }

    /// Records that the lock of type `kind` at `address` was acquired at `place`.
    ///
    /// # Panics
    /// If that breaks a rule.
    pub(crate) fn acquired(
        &self,
        context: Context,
        address: usize,
        kind: &'static str,
        place: Place,
    ) {
        let class = self.class_of(address);
        let class = class.unwrap_or_else(|| panic!("a {kind} has no name: give it one"));
        let mut all = self.usage.borrow_mut();
        let usage = all.entry(class).or_default();
        let Context { hardirq, softirq, bh_off, irqs_off } = context;
        let open = !irqs_off;
        let kinds = [
            ("an interrupt", &mut usage.hard, [hardirq, open]),
            ("a software interrupt", &mut usage.soft, [softirq, open && !bh_off]),
        ];
        for (what, known, now) in kinds {
            for (first, _) in known.iter_mut().zip(now).filter(|(_, now)| *now) {
                first.get_or_insert(place);
            }
            if let [Some(inside), Some(open)] = known {
                let (name, within) = class;
                let within = if within { ".wait_lock" } else { "" };
                panic!(
                    "{name}{within} is taken in {what} ({inside}) and where one may come ({open}): \
                     it would wait for its own CPU; disable them there",
                );
            }
        }
    }
}
