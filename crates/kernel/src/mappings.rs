//! Lists that address spaces share: for each file the areas that map it (`i_mmap`), and for each
//! inherited area of anonymous memory all its users (the tree of the root `anon_vma`), each under a
//! lock that `fork`, `exec` and `exit` acquire.
//!
//! A process that was forked and has not called `exec` shares the roots of its parent, so all users
//! of a load, and their children, contend for the roots of the process that started them, and for
//! the files of the same libraries. Acquisitions (`anon_vma_clone`, `anon_vma_fork`,
//! `unlink_anon_vmas`, `dup_mmap`, `vma_link`, `unlink_file_vma` of 2.6.39 and 3.7):
//!
//! | | each anonymous area | each area of a file |
//! |---|---|---|
//! | `fork` | 2, in the parent, and a reference to the root | 1 |
//! | `exec`, to map | none: private roots | 1 |
//! | `exec`, `exit` | 1, and 1 more if the lock is held then | 1 |
//!
//! Kernels before 2.6.39 have the same lists under spinlocks, one acquisition for each area; they
//! are part of the prices of the calls there.

use crate::lock_rules::LockRules;
use crate::locks::{Field, Line, Mutex, RwSem, Spin};
use convoy_catalogue::nanoseconds;
use convoy_machine::{Here, Sim, Smp, ps};
use convoy_sync::{Access, HandoffRwSemaphore, Platform as _, RwSemaphore, SpinRwSemaphore};
use core::cell::RefCell;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Anonymous areas of a small program with shared libraries: its data, its heap, its stack, and the
/// data of the C library and of the loader (estimate).
const ANONYMOUS: usize = 5;
/// Areas of a program's own file: text, read-only data, data.
const OF_PROGRAM: u32 = 3;
/// Areas of each library, the loader among them (memory maps of small programs of the period).
const OF_LIBRARY: u32 = 4;
/// The loader.
const LOADER: &str = "/lib/ld.so";
/// The program that starts the load.
const PARENT: &str = "the load";

/// The lock that protects the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ListLock {
    /// A spinlock: up to 2.6.39.
    Spinlock,
    /// A mutex: 3.0 to 3.7 (commit 2b575eb6).
    Mutex,
    /// A reader/writer semaphore for inherited memory, a mutex for files: 3.8 to 3.18 (commits
    /// 5a505085f043, 4fc3f1d66b1e).
    Rwsem,
    /// A reader/writer semaphore for either: from 3.19 on (commit c8475d144abb).
    Rwsems,
}

/// Lists of mappings, `[mappings]` of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = nanoseconds)]
pub struct MappingRules {
    /// What guards each.
    pub lock: ListLock,
    /// Instructions of one insertion or removal, in nanoseconds; they are part of the price of the
    /// call, the rest of which is spent without the lock.
    pub link_ns: f64,
}

enum ListGuard {
    Spin(Spin),
    Mutex(Mutex),
    Grant(RwSemaphore<Smp, Spin>),
    Steal(SpinRwSemaphore<Smp>),
    HandOver(HandoffRwSemaphore<Smp>),
}

/// One line, whichever it is.
const _: () = assert!(size_of::<ListGuard>() == 64);

impl ListGuard {
    fn hold(&self, body: impl FnOnce()) {
        match self {
            Self::Spin(lock) => lock.hold(body),
            Self::Mutex(lock) => lock.hold(body),
            Self::Grant(lock) => {
                lock.down_write();
                body();
                lock.up_write();
            }
            Self::Steal(lock) => {
                lock.down_write();
                body();
                lock.up_write();
            }
            Self::HandOver(lock) => {
                lock.down_write();
                body();
                lock.up_write();
            }
        }
    }

    fn is_held(&self) -> bool {
        match self {
            Self::Spin(lock) => lock.is_held(),
            Self::Mutex(lock) => lock.is_held(),
            Self::Grant(lock) => lock.is_locked(),
            Self::Steal(lock) => lock.is_locked(),
            Self::HandOver(lock) => lock.is_locked(),
        }
    }

    fn name(&self, name: &'static str) {
        match self {
            Self::Spin(lock) => lock.name(name),
            Self::Mutex(lock) => lock.name(name),
            Self::Grant(lock) => Here::name(lock, name),
            Self::Steal(lock) => Here::name(lock, name),
            Self::HandOver(lock) => Here::name(lock, name),
        }
    }
}

/// One list: its lock with the count of references in its line, and a line for the neighbours of an
/// inserted or removed node, which their users have written.
struct List {
    hot: Sim<ListHot>,
}

#[repr(C)]
struct ListHot {
    lock: Line<ListGuard>,
    nodes: Line<Field<u32>>,
}

impl List {
    fn new(lock: ListLock, locks: LockRules, name: &'static str) -> Rc<Self> {
        let guard = match lock {
            ListLock::Spinlock => ListGuard::Spin(locks.spin()),
            ListLock::Mutex => ListGuard::Mutex(locks.mutex()),
            ListLock::Rwsem | ListLock::Rwsems => match locks.rwsem() {
                RwSem::Grant(lock) => ListGuard::Grant(lock),
                RwSem::Spin(lock) => ListGuard::Steal(lock),
                RwSem::HandOver(lock) => ListGuard::HandOver(lock),
            },
        };
        let hot = ListHot { lock: Line(guard), nodes: Line(Field::new(0)) };
        let hot = Here::place(hot);
        hot.lock.name(name);
        Rc::new(Self { hot })
    }

    /// Counts a reference, in the line of the lock.
    fn count(&self) {
        Smp::touch(&*self.hot.lock, Access::Write);
    }

    /// Links or unlinks a node, which takes `link` picoseconds.
    fn change(&self, link: u64) {
        self.hot.lock.hold(|| {
            self.hot.nodes.update(|nodes| nodes.wrapping_add(1));
            Here::pass(link);
        });
    }

    /// Removes the links of a process to an inherited area.
    fn leave(&self, link: u64) {
        self.change(link);
        if self.hot.lock.is_held() {
            // Whoever looks at the area that is about to be freed has come out when it is ours.
            self.hot.lock.hold(|| ());
        }
        self.count();
    }
}

/// The lists of all files of one kernel.
pub(crate) struct Maps {
    rules: MappingRules,
    locks: LockRules,
    link: u64,
    files: RefCell<BTreeMap<String, Rc<List>>>,
}

impl Maps {
    pub(crate) fn new(rules: MappingRules, locks: LockRules) -> Rc<Self> {
        let link = ps(rules.link_ns);
        Rc::new(Self { rules, locks, link, files: RefCell::default() })
    }

    fn file(&self, path: &str) -> Rc<List> {
        let (lock, name) = match self.rules.lock {
            ListLock::Spinlock => (ListLock::Spinlock, "i_mmap_lock"),
            ListLock::Mutex | ListLock::Rwsem => (ListLock::Mutex, "i_mmap_mutex"),
            ListLock::Rwsems => (ListLock::Rwsems, "i_mmap_rwsem"),
        };
        let mut files = self.files.borrow_mut();
        let new = || List::new(lock, self.locks, name);
        Rc::clone(files.entry(path.to_owned()).or_insert_with(new))
    }

    fn root(&self) -> Rc<List> {
        List::new(self.rules.lock, self.locks, "anon_vma->root")
    }
}

/// The lists that contain one address space; none if the preset does not have `[mappings]`.
#[derive(Default)]
pub(crate) struct Mappings {
    maps: Option<Rc<Maps>>,
    anonymous: RefCell<Vec<Rc<List>>>,
    files: RefCell<Vec<(Rc<List>, u32)>>,
}

impl Mappings {
    /// Returns the lists of the process that starts the load.
    pub(crate) fn first(maps: Option<Rc<Maps>>) -> Self {
        let mappings = Self { maps, ..Self::default() };
        mappings.adopt(PARENT, &["/lib/libc.so"]);
        mappings
    }

    /// Lists of `program` and its `libraries`, without a price.
    fn adopt(&self, program: &str, libraries: &[&str]) {
        let Some(maps) = &self.maps else { return };
        let library = |path: &&str| (maps.file(path), OF_LIBRARY);
        let libraries = libraries.iter().chain(&[LOADER]).map(library);
        let own = core::iter::once((maps.file(program), OF_PROGRAM));
        self.files.replace(own.chain(libraries).collect());
        self.anonymous.replace((0..ANONYMOUS).map(|_| maps.root()).collect());
    }

    fn link(&self) -> u64 {
        self.maps.as_ref().map_or(0, |maps| maps.link)
    }

    /// Calls `change` for each area of a file.
    fn each_file_area(&self, change: impl Fn(&List)) {
        for (list, areas) in &*self.files.borrow() {
            (0..*areas).for_each(|_| change(list));
        }
    }

    /// `fork`: the lists of a child, which the caller, its parent, puts it on.
    pub(crate) fn duplicate(&self) -> Self {
        let link = self.link();
        for root in &*self.anonymous.borrow() {
            root.count();
            root.change(link);
            root.change(link);
        }
        self.each_file_area(|list| list.change(link));
        Self {
            maps: self.maps.clone(),
            anonymous: self.anonymous.clone(),
            files: self.files.clone(),
        }
    }

    /// `exec` and `exit`.
    pub(crate) fn release(&self) {
        let link = self.link();
        self.anonymous.take().iter().for_each(|root| root.leave(link));
        self.each_file_area(|list| list.change(link));
        self.files.take();
    }

    /// `exec`: maps `program` and its `libraries`.
    pub(crate) fn map(&self, program: &str, libraries: &[&str]) {
        let link = self.link();
        self.adopt(program, libraries);
        self.each_file_area(|list| list.change(link));
    }

    /// Returns `price`, the work of a call that links or unlinks `times` each anonymous area and
    /// once each area of a file, less the part that these lists charge.
    pub(crate) fn rest(&self, price: u64, times: u64) -> u64 {
        let files: u32 = self.files.borrow().iter().map(|(_, areas)| areas).sum();
        let links = times * self.anonymous.borrow().len() as u64 + u64::from(files);
        price.saturating_sub(links * self.link())
    }
}

#[cfg(test)]
mod tests {
    use crate::vfs::tests::Taken;
    use crate::{KernelPreset, Options, World};
    use convoy_machine::{Machine, Outcome, Preset};
    use convoy_workload::api::{Kernel as _, Program};
    use core::cell::RefCell;
    use std::rc::Rc;

    /// Returns the acquisitions of the lists' locks by a child that runs `body`, under `kernel`.
    fn child(kernel: &str, body: impl Fn(&mut crate::Process) -> i32 + Copy + 'static) -> [u64; 2] {
        let kernel = KernelPreset::named(kernel).expect("shipped");
        let preset = Preset::named("quad-2008-shared-llc").expect("shipped").with_cpus(1);
        let units = [("shell_start", 400_000.0), ("list_program", 500_000.0)];
        let units = units.map(|(name, ns)| (name.to_owned(), ns)).into();
        let machine = Machine::new(&preset, 1, 200).expect("address space");
        let taken = Rc::new(RefCell::new(Taken::default()));
        machine.record(taken.clone());
        let world = World::new(&kernel, &preset, &units, Options::default()).expect("units");
        world.boot(&machine, move |k| {
            k.fork(move |k| body(k)).expect("room");
            k.wait().expect("a child");
        });
        assert_eq!(machine.run(60_000_000_000), Outcome::Stopped);
        let taken = taken.borrow();
        let count = |names: &[&str]| {
            taken
                .counts
                .iter()
                .filter(|(name, _)| names.contains(name))
                .map(|(_, count)| count)
                .sum()
        };
        [count(&["anon_vma->root"]), count(&["i_mmap_lock", "i_mmap_mutex"])]
    }

    /// The areas of the program, the C library and the loader.
    const FILES: u64 = 3 + 4 + 4;

    #[test]
    fn fork_and_exit_take_each_list_as_often_as_the_kernel_does() {
        for kernel in ["2.6.39", "3.0-rc", "3.7", "3.8", "3.10", "3.16", "4.10"] {
            assert_eq!(child(kernel, |_| 0), [5 * 3, 2 * FILES], "{kernel}");
        }
        assert_eq!(child("2.6.25", |_| 0), [0, 0], "part of the prices");
    }

    #[test]
    fn a_program_has_roots_of_its_own_and_maps_its_files() {
        let shell = |k: &mut crate::Process| k.run_program(Program::True, "");
        // The shell maps one library more, and leaves at its end what it has mapped.
        let of_shell = 2 * (FILES + 4);
        assert_eq!(child("3.7", shell), [5 * 3 + 5, 2 * FILES + of_shell]);
    }
}
