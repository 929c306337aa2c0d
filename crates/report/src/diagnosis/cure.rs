//! What helps against each problem.

use convoy_diagnose::{
    Call, Counter, Cure, Cycle, Finding, Gap, HogSign, JavaActivity, JavaMonitor, Lost, Mover,
    Problem, ProcessWaits, Subject, Waited, Wakers,
};
use convoy_record::runtimes::runtime;
use convoy_record::{KernelObject, Origin, SystemLock};

use super::phrase::count;
use super::problem::java_lock;

/// Advice on a monitor of Java.
const MONITOR: &str = "Make the monitor's section shorter, or read without it: a volatile or an \
                       atomic variable, a concurrent collection.";
/// Collections that lock every access.
const SYNCHRONIZED: [&str; 3] =
    ["java.util.Collections$Synchronized", "java.util.Hashtable", "java.util.Vector"];
/// Views of programs that show such waits themselves, by program name.
pub(super) const VIEWS: [(&str, &str); 1] =
    [("postgres", "wait_event of pg_stat_activity, and pg_locks")];

/// Returns what helps against the problem of a finding.
pub(super) fn text(finding: &Finding) -> String {
    if let Problem::Java { monitor: Some(monitor), .. } = &finding.problem {
        if finding.gaps.contains(&Gap::FewDumps) {
            return format!(
                "In {}, too few to say more, {} threads wait for {} in {}. {}",
                count(monitor.dumps, "thread dump"),
                monitor.waiting,
                java_lock(monitor),
                monitor.place,
                java(monitor)
            );
        }
        return java(monitor);
    }
    if finding.origin == Some(Origin::JavaMonitor) && finding.cure() == Cure::ReadWithoutLock {
        return MONITOR.to_owned();
    }
    if finding.origin.is_some_and(Origin::is_of_runtime)
        && matches!(finding.problem, Problem::ShortSections { .. })
    {
        return "Do more in each section or less often, or keep data in each thread (a reduction); \
                no replacement of libc's lock can help."
            .to_owned();
    }
    if finding.origin == Some(Origin::JavaVm) {
        return "It is a lock of the Java virtual machine itself: do less of what needs it (start \
                fewer threads, allocate less); another lock cannot be chosen."
            .to_owned();
    }
    let may_keep = matches!(finding.problem, Problem::OwnerPreempted { .. } | Problem::Hog { .. });
    if may_keep && finding.cure() == Cure::Shorten {
        return "Shorten the section, or acquire the lock less often, if that time matters."
            .to_owned();
    }
    of_problem(&finding.problem)
}

fn of_problem(problem: &Problem) -> String {
    match problem {
        Problem::Deadlock { cycle, waits, .. } => return deadlock(*cycle, waits).to_owned(),
        Problem::LibcLock { function, asleep } => {
            let advice = runtime(function).map_or("", |known| known.advice);
            return match asleep {
                Some(_) => format!("Make the call in which it sleeps without that lock. {advice}"),
                None => advice.to_owned(),
            };
        }
        Problem::PoolExhausted { in_use, waiting, .. } => {
            let most = 1.0 + (waiting / in_use.max(f64::MIN_POSITIVE)).min(1.0);
            return format!(
                "Give it more units if what it limits can serve more threads (twice as many admit \
                 up to {most:.1} times as many threads), or keep a unit for less time; another \
                 lock will not help."
            );
        }
        Problem::OwnerAsleep { call, parks: true, .. } => return of_parking(call),
        Problem::OwnerAsleep { call, .. } => return of_call(call),
        Problem::OwnerWaits { end: Some(end), .. } => return of_problem(end),
        Problem::Java { monitor: Some(monitor), .. } => return java(monitor),
        Problem::Processes { waits, program, .. } => return processes(waits, program),
        _ => {}
    }
    fixed(problem).to_owned()
}

/// Returns advice that does not depend on figures or names.
fn fixed(problem: &Problem) -> &'static str {
    match problem {
        Problem::InterpreterLock => {
            "Use processes instead of threads for work on the CPU (multiprocessing, \
             concurrent.futures). Waits of 5 ms are sys.getswitchinterval(): a shorter one helps \
             threads that do input and output."
        }
        Problem::RustStream { .. } => {
            "Lock it once for all lines (`lock()`) and put a `BufWriter` in front of it, or format \
             into a buffer of the thread and write that with one call; another lock cannot help."
        }
        Problem::Java { .. } => MONITOR,
        Problem::RuntimeLock { .. } => {
            "Make its sections shorter or fewer; no replacement of libc's lock can help."
        }
        Problem::WriterStarvation { .. } => {
            "Initialise it with PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP \
             (pthread_rwlockattr_setkind_np), or let writers replace the data and readers keep the \
             old (RCU)."
        }
        Problem::ShortSections { .. } => {
            "Do more in each section or less often, keep data in each thread, or take a lock that \
             spins first (`convoy fix` on this record tries it)."
        }
        Problem::Contended { owner: None, unseen_s: Some(_), .. } => {
            "Find the long section of this lock: a process that takes the recorder in (one that \
             keeps its environment) shows its owner."
        }
        Problem::Contended { .. } => "Make the sections of this lock shorter or fewer.",
        Problem::Spinlock { .. } => "Take a mutex, which sleeps until the owner has released it.",
        _ => of_owner(problem).unwrap_or_else(|| without_waits(problem)),
    }
}

/// Returns advice on an owner that keeps the lock, if it is one.
fn of_owner(problem: &Problem) -> Option<&'static str> {
    /// Part of the waiting from which its unknown reason decides what helps.
    const MOST: f64 = 0.5;
    Some(match problem {
        Problem::OwnerWaits { .. } => "Fix the other lock first, or acquire it before this one.",
        Problem::OwnerPreempted { lost: Lost::HandedOver(_), .. } => {
            "Take a lock that a running thread may acquire past those that wait: record without \
             this policy, or `convoy fix` on this record says which one helps."
        }
        Problem::OwnerPreempted { inversion: Some(_), .. } => {
            "Initialise the mutex with PTHREAD_PRIO_INHERIT (pthread_mutexattr_setprotocol), so \
             that its owner runs with the priority of the thread that waits."
        }
        Problem::OwnerPreempted { .. } => {
            "Run fewer threads, or shorten the section; `convoy fix` on this record says which \
             lock helps."
        }
        Problem::Hog { sign: HogSign::Holds { .. }, .. } => {
            "Release the lock for some time between two sections or hand it over: `convoy with \
             --mutex fair` or `--mutex handoff` tries that."
        }
        Problem::Hog { sign: HogSign::Futile { .. }, .. } => {
            "Release the lock for some time between two sections or hand it over (`unlock_fair` of \
             parking_lot)."
        }
        Problem::LongSection { interpreter: Some(_), .. } => {
            "Compute outside of the critical section, and only exchange the result in it; another \
             lock will not help."
        }
        // It may sleep there. The gap says how to see that.
        Problem::LongSection { off_unexplained: Some(part), .. } if *part >= MOST => "",
        Problem::LongSection { hold_s: None, .. } => {
            "Make that section shorter, or release the lock for some time between two sections."
        }
        Problem::LongSection { .. } => {
            "Make that section shorter, or split what the lock guards; another lock will not help."
        }
        _ => return None,
    })
}

/// Returns advice on the kernel's locks, and on problems that cost time without waits.
fn without_waits(problem: &Problem) -> &'static str {
    match problem {
        Problem::KernelLock { is_of_scheduler: true, .. } => {
            "It is the scheduler's: let threads wake each other less often, or run fewer."
        }
        Problem::KernelWait { object: KernelObject::AddressSpace, .. } => {
            "No lock in the program can help: keep memory instead of mapping and unmapping it \
             (mallopt: M_MMAP_THRESHOLD, M_TRIM_THRESHOLD), or use processes."
        }
        Problem::KernelWait { object: KernelObject::FilePosition, .. } => {
            "No lock in the program can help: call pwrite(2) or pread(2), which need no position, \
             or open the file in each thread."
        }
        Problem::KernelWait { object: KernelObject::File, .. } => {
            "No lock in the program can help: write larger pieces, or from one thread, or to a \
             file of each thread."
        }
        Problem::KernelWait { object: KernelObject::Directory, .. } => {
            "No lock in the program can help: spread the files over several directories, or create \
             and rename fewer."
        }
        Problem::KernelLock { .. } | Problem::KernelWait { .. } => {
            "No lock in the program can help: make that system call less often, or let fewer \
             threads share what it works on (a directory, an address space, a file)."
        }
        Problem::ThunderingHerd(herd) if herd.wakers == Wakers::NotifyAll => {
            "Call notify() once for each item, or use a queue of java.util.concurrent."
        }
        Problem::ThunderingHerd(_) => {
            "Call pthread_cond_signal (notify_one) once for each item instead."
        }
        Problem::ReaderCounter { counter: Counter::Rwlock { .. } } => {
            "Read without a lock: let writers replace the data and readers follow a pointer (RCU, \
             an atomic pointer, a sequence lock), or give each thread or CPU a copy."
        }
        Problem::ReaderCounter { .. } => {
            "Count in each thread or CPU, 64 bytes apart (alignas, CachePadded); read without a \
             lock: let writers replace the data and readers follow an atomic pointer."
        }
        Problem::FalseSharing { mover: Mover::Data { .. }, .. } => {
            "Keep the data of other threads 64 bytes away from it (alignas, \
             __attribute__((aligned)), CachePadded)."
        }
        Problem::FalseSharing { .. } => {
            "Align each of them to 64 bytes (alignas, __attribute__((aligned)), CachePadded)."
        }
        Problem::Spinning { is_of_openmp: true, .. } => {
            "OpenMP's threads spin before they sleep: give all threads of a loop the same work \
             (schedule(dynamic)), shorten its critical sections, or set OMP_WAIT_POLICY=passive."
        }
        Problem::Spinning { .. } => {
            "Take a mutex there, which sleeps until the owner has released it, or a condition for \
             work; or run fewer such threads than CPUs."
        }
        Problem::Polls { .. } => {
            "Call the function that waits there (pthread_mutex_lock, sem_wait): the thread goes on \
             as soon as the lock is released, and the next record shows what its owner does \
             meanwhile."
        }
        Problem::Attempts { .. } => {
            "Call pthread_mutex_lock there, which sleeps until the owner has released it."
        }
        _ => "",
    }
}

fn deadlock(cycle: Cycle, waits: &[Waited]) -> &'static str {
    let of_python = waits.iter().all(|wait| {
        matches!(wait.subject, Subject::Python { .. }) && !convoy_record::is_python(&wait.place)
    });
    match (cycle, waits) {
        (Cycle::Closed, [wait]) if wait.owner_ended => {
            "Release the lock on every way out of the thread, or make the mutex robust."
        }
        (Cycle::Closed, [_]) if of_python => {
            "Release it first, or use a `threading.RLock`. `py-spy dump` shows the functions of \
             Python while it runs."
        }
        (Cycle::Closed | Cycle::TimedOut, [_]) => {
            "Release it before, or call a function that expects it to be held."
        }
        (Cycle::Closed, _) if of_python => {
            "Acquire these locks in one order everywhere. `py-spy dump` shows the functions of \
             Python while it runs."
        }
        (Cycle::Closed | Cycle::TimedOut, _) => "Acquire these locks in one order everywhere.",
        (Cycle::Stuck | Cycle::Unreleased, _) => {
            "Acquire locks in one order everywhere, and do not acquire a lock twice or wait for a \
             thread while holding a lock that this thread needs."
        }
    }
}

/// Returns advice for an owner that sleeps in this call.
fn of_call(call: &Call) -> String {
    let name = match call {
        Call::System(name) => name.as_str(),
        Call::Futex => "futex",
        Call::Unseen => {
            return "Make system calls outside of the critical section; another lock will not help."
                .to_owned();
        }
        Call::PageFault => {
            return "Touch the memory before the lock is acquired, or keep it in memory; another \
                    lock will not help."
                .to_owned();
        }
        Call::OtherThread(_) => {
            return "Release the lock before it waits for another thread; another lock will not \
                    help."
                .to_owned();
        }
        Call::GoScheduler => {
            return "Release the lock before it sleeps or waits there; another lock will not help."
                .to_owned();
        }
    };
    match name {
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" => format!(
            "Note under the lock what must reach the disk, and call {name}(2) outside of the \
             critical section; another lock will not help."
        ),
        "read" | "pread64" | "readv" | "write" | "pwrite64" | "writev" | "sendto" | "sendmsg"
        | "openat" | "close" | "mmap" | "munmap" => format!(
            "Prepare the data under the lock, and call {name}(2) outside of the critical section; \
             another lock will not help."
        ),
        _ => format!("Release the lock before it calls {name}(2); another lock will not help."),
    }
}

/// Returns advice for an event loop that holds a lock while it is idle, and whose waiters release
/// the lock immediately: some programs park idle threads this way.
fn of_parking(call: &Call) -> String {
    let before = match call {
        Call::System(name) => format!("it calls {name}(2)"),
        _ => "it waits".to_owned(),
    };
    format!(
        "If the program parks them there until it has work, this costs nothing; if not, release \
         the lock before {before}. Another lock will not help."
    )
}

fn java(monitor: &JavaMonitor) -> String {
    match &monitor.activity {
        _ if monitor.units.is_some() => {
            "Let it admit more threads (more permits of a semaphore, more elements of a queue) if \
             what it limits can serve them, or keep one for less time; another lock will not help."
                .to_owned()
        }
        // The method acquires the lock of its object itself.
        JavaActivity::Sleeps { method: Some(method) } | JavaActivity::Native { method }
            if method
                .rsplit_once('.')
                .is_some_and(|(class, _)| is_class(&monitor.class, class)) =>
        {
            format!(
                "Call {method} less often: gather in each thread what it takes; another lock will \
                 not help."
            )
        }
        JavaActivity::Sleeps { method: Some(method) } | JavaActivity::Native { method } => {
            format!("Call {method} outside of the critical section; another lock will not help.")
        }
        JavaActivity::Waits { .. } => {
            "Fix the other lock first, or acquire it before this one.".to_owned()
        }
        _ if SYNCHRONIZED.iter().any(|class| monitor.class.starts_with(class)) => {
            "Use a collection of java.util.concurrent, such as ConcurrentHashMap.".to_owned()
        }
        _ if monitor.is_monitor => MONITOR.to_owned(),
        _ => "Make the critical section shorter, or read without it: a volatile or an atomic \
              variable, a concurrent collection."
            .to_owned(),
    }
}

/// Returns whether a class has this name, without or with its package.
fn is_class(class: &str, name: &str) -> bool {
    class.strip_suffix(name).is_some_and(|package| package.is_empty() || package.ends_with('.'))
}

fn processes(waits: &ProcessWaits, program: &str) -> String {
    if let ProcessWaits::System { object, .. } = waits {
        return match object {
            SystemLock::File => {
                "Hold the lock for less time, or lock a range of the file (fcntl(2)); another lock \
                 will not help."
            }
            SystemLock::Semaphore => {
                "Hold a unit for less time, or allow more units; another lock will not help."
            }
        }
        .to_owned();
    }
    let view = VIEWS.iter().find(|(name, _)| *name == program);
    let view = view.map_or_else(String::new, |(_, view)| format!(" ({view})"));
    format!(
        "What they wait for lies in memory that they share, or in messages: the program's own \
         views name it{view}. Make the work that others wait for shorter."
    )
}
