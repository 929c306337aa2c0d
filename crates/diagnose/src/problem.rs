//! The problems of recorded programs, each with the facts that explain it.

use convoy_record::{KernelObject, Kind as Primitive, SystemLock};
use serde::Serialize;

/// A function of the program, with file and line if they are known: `Wal::sync (wal.cc:16)`.
pub type Place = String;

/// The lock that a finding is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Subject {
    /// A variable of the program, or several variables of one name.
    Variable {
        /// Name of the variable.
        name: String,
        /// Number of locks.
        instances: u64,
    },
    /// One of several variables of one name, such as an element of an array: most threads wait for
    /// this one.
    Element {
        /// Name of the variable, with the offset in it.
        name: String,
        /// Number of locks of that name.
        instances: u64,
    },
    /// A lock without a variable.
    Unnamed {
        /// The primitive.
        primitive: Primitive,
        /// Number of locks.
        instances: u64,
    },
    /// A lock of Python's library.
    Python {
        /// The module that defines it.
        module: PythonModule,
    },
    /// The lock of a standard stream of Rust's library, by the name of the lock.
    RustStream {
        /// Name of the lock.
        lock: String,
    },
    /// A lock inside libc, by the function that acquires it.
    Libc {
        /// The function.
        function: String,
    },
    /// A lock of Java in a thread dump.
    JavaLock {
        /// Class of the lock or of the object.
        class: String,
    },
    /// Another lock of a runtime or library.
    Runtime {
        /// Description of the runtime by the recorder.
        runtime: String,
    },
}

/// Modules of Python that define locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PythonModule {
    /// `threading`.
    Threading,
    /// `multiprocessing`.
    Multiprocessing,
}

/// The thread that held a lock while others waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Owner {
    /// Where it had acquired the lock. `None` if unknown, or if the place says nothing.
    pub place: Option<Place>,
    /// Whether that is the place where the others waited.
    pub is_waiting_place: bool,
}

/// A sleep of a thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "call", content = "name", rename_all = "kebab-case")]
pub enum Call {
    /// A system call, by its name.
    System(String),
    /// A system call that no sample has seen.
    Unseen,
    /// A page of memory was read in.
    PageFault,
    /// futex(2), for something that is not known.
    Futex,
    /// A condition or signal of another thread, by its name if it has one.
    OtherThread(Option<String>),
    /// Go's scheduler: a timer, a channel, input or output.
    GoScheduler,
}

impl Call {
    /// Returns whether the call waits for input from any of several sources, like an event loop.
    pub fn waits_for_input(&self) -> bool {
        const CALLS: [&str; 7] =
            ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"];
        matches!(self, Self::System(name) if CALLS.contains(&name.as_str()))
    }
}

/// Why an owner is counted as preempted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "how", content = "share", rename_all = "kebab-case")]
pub enum Lost {
    /// The owner had no CPU during this part of the wait time.
    Cpu(f64),
    /// The lock was free during this part of the wait time, and its next owner had no CPU.
    Free(f64),
    /// The policy hands the lock to a thread that must wake up: the owner was on no CPU for this
    /// part of the hold time.
    HandedOver(f64),
}

/// A thread that waited for an owner of lower real-time priority, which had no CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inversion {
    /// The waiting thread, by its ID and name.
    pub waiter: String,
    /// Its priority, 1 to 99.
    pub waiter_priority: u32,
    /// The owner.
    pub owner: String,
    /// Its priority; 0 if it has none.
    pub owner_priority: u32,
}

/// Evidence that a thread acquires a lock again before others have woken up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "sign", rename_all = "kebab-case")]
pub enum HogSign {
    /// Its holds.
    Holds {
        /// Part of the run that it held the lock.
        run_share: f64,
        /// Mean hold time in seconds.
        hold_s: f64,
    },
    /// Wakeups of others that found the lock taken.
    Futile {
        /// Futile wakeups.
        futile: u64,
        /// All wakeups.
        wakeups: u64,
    },
}

/// State of the owner of a Java lock in thread dumps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "activity", rename_all = "kebab-case")]
pub enum JavaActivity {
    /// Unknown, or it runs.
    Runs,
    /// It sleeps, in this method if it is known.
    Sleeps {
        /// The method.
        method: Option<String>,
    },
    /// It is in a native method.
    Native {
        /// The method.
        method: String,
    },
    /// It waits for another lock.
    Waits {
        /// Class of that lock.
        class: String,
        /// The method that waits.
        place: Place,
        /// The method that holds that lock, if known.
        holder: Option<Place>,
        /// Whether that method is the one that waits.
        is_same_place: bool,
    },
}

/// The Java lock for which most threads wait in thread dumps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JavaMonitor {
    /// Class of the object or lock.
    pub class: String,
    /// Whether it is a monitor (`synchronized`), otherwise a lock or a semaphore of
    /// `java.util.concurrent`.
    pub is_monitor: bool,
    /// Whether threads wait for a notification (`Object.wait`).
    pub is_notification: bool,
    /// Part of the threads that waited for a lock of this sort.
    pub part: f64,
    /// The waiting method.
    pub place: Place,
    /// The method that holds it, if known.
    pub holder: Option<Place>,
    /// Whether that is the waiting method.
    pub is_same_place: bool,
    /// What the owner does.
    pub activity: JavaActivity,
    /// Number of thread dumps.
    pub dumps: u64,
    /// Waiting threads, summed over the dumps.
    pub waiting: u64,
    /// Mean number of threads that have a permit, if it is a semaphore that limits a pool.
    pub units: Option<f64>,
}

/// A wait that had not ended when the record ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waited {
    /// Name of the waiting thread: its number, or its name in Java.
    pub thread: String,
    /// Where it waits.
    pub place: Place,
    /// The lock.
    pub subject: Subject,
    /// The owner's thread, if known.
    pub owner: Option<String>,
    /// Whether the owner has ended.
    pub owner_ended: bool,
    /// Where the owner had acquired the lock, if known.
    pub held_at: Option<Place>,
}

/// How threads wait without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cycle {
    /// Each thread waits for a lock that the next one owns.
    Closed,
    /// No thread is left that could run.
    Stuck,
    /// A lock that was not released until the end of the record.
    Unreleased,
    /// Each waits for a lock that it owns itself, until a time limit.
    TimedOut,
}

/// How threads are woken one by one or all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wakers {
    /// Broadcasts (`pthread_cond_broadcast`, `notify_all`).
    Broadcasts,
    /// Java's `notifyAll`.
    NotifyAll,
}

/// A herd of woken threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Herd {
    /// How they are woken.
    pub wakers: Wakers,
    /// The function that wakes them, if known.
    pub from: Option<Place>,
    /// Number of calls that wake.
    pub calls: u64,
    /// Mean number of threads that a call wakes.
    pub woken_per_call: f64,
    /// Where they wait.
    pub place: Place,
    /// For Java: class of the object, if known.
    pub class: Option<String>,
    /// Wakeups after which the thread found next to nothing to do.
    pub futile: u64,
    /// All wakeups.
    pub wakeups: u64,
}

/// Who writes the counter of readers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "counter", rename_all = "kebab-case")]
pub enum Counter {
    /// A reader/writer lock of libc.
    Rwlock {
        /// Where readers acquire it.
        place: Place,
        /// Number of acquisitions.
        count: u64,
        /// Mean time of one, in seconds.
        each_s: f64,
        /// Whether its cache line moves; otherwise it would, on several CPUs.
        moves: bool,
    },
    /// Atomic additions in the program.
    Additions {
        /// Where.
        place: Place,
    },
}

/// What is on the cache line of a lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "mover", rename_all = "kebab-case")]
pub enum Mover {
    /// Other locks of the same name, acquired at this place.
    SameName {
        /// The place.
        place: Place,
    },
    /// These locks.
    Locks {
        /// Their names.
        locks: Vec<Subject>,
    },
    /// Data of other threads; the lock is acquired at this place.
    Data {
        /// The place.
        place: Place,
    },
}

/// Why processes wait.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "for", rename_all = "kebab-case")]
pub enum ProcessWaits {
    /// For wakeups by other processes, as the kernel saw them.
    Wakeups {
        /// Number of wakeups.
        wakeups: u64,
    },
    /// For semaphores that others post.
    Semaphores {
        /// Where.
        place: Place,
        /// Number of waits.
        waits: u64,
    },
    /// For a lock that the kernel keeps, in this system call.
    System {
        /// The call.
        call: String,
        /// The kind of the lock.
        object: SystemLock,
    },
}

/// What kernel events say of the owners of a kernel lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owners {
    /// They are known for less than half of the wait time.
    Unknown,
    /// They were off CPU when most of the waiting began.
    OffCpu,
    /// They ran.
    Ran,
}

/// A problem with the facts that explain it. Times are in seconds, shares are parts of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "problem", rename_all = "kebab-case")]
pub enum Problem {
    /// Threads wait without end.
    Deadlock {
        /// How.
        cycle: Cycle,
        /// The waits; the first ones if there are many.
        waits: Vec<Waited>,
        /// Number of further threads that wait behind them.
        behind: usize,
        /// The longest wait.
        longest_s: f64,
    },
    /// Python's interpreter lock.
    InterpreterLock,
    /// A lock inside libc.
    LibcLock {
        /// The function that acquires it.
        function: String,
        /// Part of the hold time that the owner slept, if it is a large one.
        asleep: Option<f64>,
    },
    /// The lock of a standard stream of Rust, by the name of the lock.
    RustStream {
        /// Name of the lock.
        lock: String,
    },
    /// A lock of Java, as thread dumps name it. `None` if no dump does.
    Java {
        /// The lock.
        monitor: Option<JavaMonitor>,
        /// Whether the wait time was measured; otherwise it is an estimate from dumps.
        is_measured: bool,
    },
    /// A lock of another runtime.
    RuntimeLock {
        /// Description of the runtime by the recorder.
        runtime: String,
    },
    /// Readers overtake a writer.
    WriterStarvation {
        /// Where the readers acquire the lock, if known.
        readers: Option<Place>,
        /// Number of reads.
        reads: u64,
        /// The writer's longest wait.
        longest_s: f64,
    },
    /// All units of a semaphore, or of a pool behind a condition, are taken.
    PoolExhausted {
        /// Mean number of units in use.
        in_use: f64,
        /// Mean number of threads that wait for one.
        waiting: f64,
        /// Mean time that a thread keeps a unit.
        hold_s: f64,
        /// Where its holders sleep.
        call: Option<Call>,
    },
    /// The owner sleeps.
    OwnerAsleep {
        /// The owner.
        owner: Owner,
        /// The sleep.
        call: Call,
        /// Where the owner sleeps, if known.
        place: Option<Place>,
        /// Whether waiting threads release the lock immediately, as parked threads of an event
        /// loop, or wait there for a message of another thread themselves.
        parks: bool,
    },
    /// The owner waits for another lock.
    OwnerWaits {
        /// The owner.
        owner: Owner,
        /// Where it waits.
        place: Place,
        /// The other lock.
        next: Subject,
        /// Why its owner keeps that one.
        end: Option<Box<Problem>>,
    },
    /// The owner was preempted.
    OwnerPreempted {
        /// The owner.
        owner: Owner,
        /// How.
        lost: Lost,
        /// Part of the run in which threads waited for the lock. `None` if it was not recorded.
        queued: Option<f64>,
        /// A waiting thread of higher priority than the owner.
        inversion: Option<Inversion>,
    },
    /// A thread acquires the lock again immediately.
    Hog {
        /// The owner.
        owner: Owner,
        /// The evidence.
        sign: HogSign,
    },
    /// The critical section is long.
    LongSection {
        /// The owner.
        owner: Owner,
        /// Mean hold time; `None` if holds were not timed.
        hold_s: Option<f64>,
        /// Mean wait time if holds were not timed.
        wait_s: Option<f64>,
        /// Part of the time that the owner was off its CPU for an unknown reason, if it is a large
        /// one.
        off_unexplained: Option<f64>,
        /// Part of the time that the owner waited for Python's interpreter lock.
        interpreter: Option<f64>,
    },
    /// Many short critical sections.
    ShortSections {
        /// The owner.
        owner: Owner,
        /// Number of acquisitions. `None` if only waits were counted.
        count: Option<u64>,
        /// Mean hold time.
        hold_s: f64,
    },
    /// Waits for an unknown reason.
    Contended {
        /// The owner, if known.
        owner: Option<Owner>,
        /// How long an unknown thread holds the lock at a time, if that follows from the waits.
        unseen_s: Option<f64>,
        /// Whether it is known how long the owner holds it at a time.
        is_timed: bool,
    },
    /// Threads spin for a spinlock of libc.
    Spinlock {
        /// Part of the hold time that the owner was on no CPU, if it is a large one.
        off: Option<f64>,
    },
    /// A lock of the kernel.
    KernelLock {
        /// The kernel's name of its kind.
        primitive: String,
        /// Where the kernel waits.
        place: Place,
        /// What is known of the owners.
        owners: Owners,
        /// Whether it is taken to switch threads.
        is_of_scheduler: bool,
    },
    /// Threads sleep in a system call for a lock of the kernel, by samples.
    KernelWait {
        /// What the lock protects.
        object: KernelObject,
        /// The system call with most of the samples; empty for a page fault.
        call: String,
    },
    /// A broadcast wakes threads that find nothing to do.
    ThunderingHerd(Herd),
    /// A counter of readers.
    ReaderCounter {
        /// The counter.
        counter: Counter,
    },
    /// A cache line that several threads write.
    FalseSharing {
        /// What shares the line.
        mover: Mover,
        /// Number of acquisitions that fetched the line.
        count: f64,
        /// Mean time of one.
        each_s: f64,
    },
    /// Threads wait in a loop.
    Spinning {
        /// Where.
        place: Place,
        /// Part of the CPU time at that place, if samples show it.
        cpu_share: Option<f64>,
        /// Calls of `sched_yield`, and where most of them are.
        yields: Option<(u64, Place)>,
        /// Mean number of runnable threads, if there are more than CPUs.
        runnable: Option<f64>,
        /// Number of CPUs.
        cpus: u32,
        /// Whether the loop is in OpenMP's library.
        is_of_openmp: bool,
    },
    /// Threads try to acquire a lock in a loop.
    Attempts {
        /// Where.
        place: Place,
        /// Number of failed attempts.
        count: u64,
    },
    /// Threads try to acquire a lock and sleep for some time after each failed attempt.
    Polls {
        /// Where.
        place: Place,
        /// Number of failed attempts.
        count: u64,
    },
    /// Processes wait for each other.
    Processes {
        /// For what.
        waits: ProcessWaits,
        /// Number of processes.
        processes: usize,
        /// Name of the program.
        program: String,
        /// Their most frequent sleeps, each with its part of all sleeps.
        sleeps: Vec<(String, f64)>,
    },
}
