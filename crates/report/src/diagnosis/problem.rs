//! The sentence of each kind of finding.

use convoy_diagnose::{
    Call, Counter, Cycle, Finding, Gap, Herd, HogSign, Inversion, JavaActivity, JavaMonitor, Lost,
    Mover, Owners, Problem, ProcessWaits, Subject, Waited, Wakers,
};
use convoy_record::runtimes::stream_of_rust;
use convoy_record::{KernelObject, SystemLock};

use super::phrase::{at, away, count, holds, list, lock, percent, seconds, sleeps};

/// One Java lock with this part of the waiting is named alone.
const ALONE: f64 = 0.9;

/// Returns the problem and its reason as a sentence.
pub(super) fn sentence(finding: &Finding) -> String {
    match &finding.problem {
        Problem::Deadlock { cycle: Cycle::TimedOut, .. }
        | Problem::LibcLock { .. }
        | Problem::RustStream { .. }
        | Problem::RuntimeLock { .. }
        | Problem::WriterStarvation { .. }
        | Problem::PoolExhausted { .. }
        | Problem::OwnerAsleep { .. }
        | Problem::OwnerWaits { .. }
        | Problem::OwnerPreempted { .. }
        | Problem::Hog { .. }
        | Problem::LongSection { .. }
        | Problem::ShortSections { .. }
        | Problem::Contended { .. }
        | Problem::Spinlock { .. } => {
            let second = finding.second.as_ref().map(second).unwrap_or_default();
            format!("{}{}{}{second}.", cost(finding), reason(&finding.problem), convoy(finding))
        }
        Problem::Deadlock { cycle, waits, behind, longest_s } => {
            deadlock(*cycle, waits, *behind, *longest_s)
        }
        Problem::InterpreterLock => format!(
            "Threads spent {} of their time waiting for Python's interpreter lock, the GIL, which \
             lets one thread run Python code at a time.",
            time(finding)
        ),
        Problem::Java { monitor, is_measured } => java(finding, monitor.as_ref(), *is_measured),
        Problem::KernelLock { primitive, place, owners, .. } => {
            let owner = match owners {
                Owners::Unknown => "",
                Owners::OffCpu => {
                    "; its owner was off CPU when most of the waiting began: a lock convoy"
                }
                Owners::Ran => "; its owner ran",
            };
            let share = finding.share.unwrap_or(0.0);
            format!(
                "{} spent {} of their time waiting for the kernel's {primitive} in {place}{owner}.",
                entering(finding),
                percent(share)
            )
        }
        Problem::KernelWait { object, call } => format!(
            "{} spent about {} of their time waiting for the kernel's lock of {} in {}, by {} \
             samples of where they slept.",
            entering(finding),
            percent(finding.share.unwrap_or(0.0)),
            protected(*object),
            in_call(call),
            finding.confidence.observations
        ),
        Problem::ThunderingHerd(herd) => self::herd(herd, &named(finding)),
        Problem::ReaderCounter { counter } => self::counter(finding, counter),
        Problem::FalseSharing { mover, count, each_s } => false_sharing(mover, *count, *each_s),
        Problem::Spinning { .. } => spinning(&finding.problem),
        Problem::Attempts { place, count } => format!(
            "Threads spin in {place}: they tried {count} times to acquire a lock that another \
             thread held (pthread_mutex_trylock and the like)."
        ),
        Problem::Polls { place, count } => format!(
            "Threads in {place} tried {count} times to acquire a lock that another thread held \
             (pthread_mutex_trylock and the like), and slept after each attempt, for up to {} of \
             the time of all threads.",
            percent(finding.share.unwrap_or(0.0))
        ),
        Problem::Processes { waits, processes, program, sleeps } => {
            self::processes(finding, waits, *processes, program, sleeps)
        }
    }
}

/// Returns the threads that wait for a lock of the kernel, with the function that calls it.
fn entering(finding: &Finding) -> String {
    let waiters = finding.waiters.as_ref().and_then(|waiters| waiters.place.as_deref());
    waiters.map_or_else(|| "Threads".to_owned(), |place| format!("Threads in {place}"))
}

/// Returns what a lock of the kernel protects.
pub(crate) fn protected(object: KernelObject) -> &'static str {
    match object {
        KernelObject::AddressSpace => "the address space",
        KernelObject::FilePosition => "the position in a file that they share",
        KernelObject::File => "a file",
        KernelObject::Directory => "a directory",
        KernelObject::Pipe => "a pipe",
        KernelObject::Unknown => "an unknown object",
    }
}

/// Returns a system call, or a page fault, as the place of a sleep.
pub(crate) fn in_call(call: &str) -> &str {
    if call.is_empty() { "page faults" } else { call }
}

/// Returns the lock of a finding in words.
fn named(finding: &Finding) -> String {
    finding.subject.as_ref().map_or_else(|| format!("`{}`", finding.lock), lock)
}

/// Returns the part of their time that threads waited, or the wait time if that part is unknown.
fn time(finding: &Finding) -> String {
    finding.share.map_or_else(|| seconds(finding.cost_s), percent)
}

/// Returns the cost of waiting: `Threads in f (x.c:7) spent 49 % of their time waiting for a
/// mutex`.
fn cost(finding: &Finding) -> String {
    let waiters = finding.waiters.as_ref();
    let place = waiters.and_then(|waiters| waiters.place.as_ref());
    let is_only_place = waiters.is_some_and(|waiters| waiters.is_only_place);
    let subject = finding.subject.as_ref();
    let threads = match (place, is_only_place, subject) {
        (Some(place), true, _) => format!("Threads in {place}"),
        // An unnamed lock is identified only by its places.
        (Some(place), false, Some(Subject::Unnamed { .. })) => {
            format!("Threads, most of them in {place},")
        }
        _ => "Threads".to_owned(),
    };
    let lock = named(finding);
    match finding.share {
        Some(share) => {
            format!("{threads} spent {} of their time waiting for {lock}", percent(share))
        }
        None => format!("{threads} waited {} for {lock}", seconds(finding.cost_s)),
    }
}

/// Returns why threads waited for a lock, as the end of a sentence.
fn reason(problem: &Problem) -> String {
    match problem {
        Problem::Deadlock { waits, .. } => {
            let held = waits.first().and_then(|wait| wait.held_at.as_ref());
            let acquired = held.map_or(String::new(), |place| format!(", acquired in {place}"));
            format!(
                ", which they hold themselves{acquired}, so that they wait until their time limit"
            )
        }
        Problem::LibcLock { function, asleep } => {
            let sleeps = asleep.map_or(String::new(), |part| {
                format!("; its owner sleeps during {} of the time that it holds it", percent(part))
            });
            format!(", which {function}() takes{sleeps}")
        }
        Problem::RustStream { lock } => {
            let call = stream_of_rust(lock).map_or("println!()", |[_, call]| call);
            format!(", which a call such as {call} takes")
        }
        Problem::RuntimeLock { runtime } => format!(" ({runtime})"),
        Problem::WriterStarvation { readers, reads, longest_s } => {
            let readers = readers
                .as_ref()
                .map_or("readers".to_owned(), |place| format!("readers in {place}"));
            format!(
                ", because {readers} acquire it while others still read ({reads} times in the \
                 run): the lock prefers readers, and the writer starves, up to {} at a time",
                seconds(*longest_s)
            )
        }
        Problem::PoolExhausted { in_use, waiting, hold_s, call } => {
            let sleep = call.as_ref().map_or(String::new(), |call| format!(" and {}", away(call)));
            format!(
                ", which admits {in_use:.1} threads at a time on average: each keeps its unit for \
                 {}{sleep}, and {waiting:.1} threads wait for one",
                seconds(*hold_s)
            )
        }
        Problem::Spinlock { off } => {
            let off = off.map_or(String::new(), |part| {
                format!(
                    "; its owner was on no CPU for {} of the time that it was held",
                    percent(part)
                )
            });
            format!(", and spin while they wait{off}")
        }
        _ => of_owner(problem),
    }
}

/// Returns what the owner of a lock does while others wait, as the end of a sentence.
fn of_owner(problem: &Problem) -> String {
    match problem {
        Problem::OwnerAsleep { owner, call, place, parks } => {
            let parking = match call {
                _ if !parks => "",
                Call::OtherThread(_) => "; the next owner waits there, too",
                _ => "; the waiting threads release it at once",
            };
            format!("{} while {}{}{parking}", holds(owner), sleeps(call), at(place.as_ref()))
        }
        Problem::OwnerWaits { owner, place, next, end } => {
            let end = end.as_deref().map_or(String::new(), reason);
            format!("{} while it waits in {place} for {}{end}", holds(owner), lock(next))
        }
        Problem::OwnerPreempted { owner, lost, inversion, .. } => {
            let inversion = inversion.as_ref().map(inverted).unwrap_or_default();
            preempted(&holds(owner), *lost) + &inversion
        }
        Problem::Hog { owner, sign } => hog(owner, *sign),
        Problem::LongSection { .. } => long(problem),
        Problem::ShortSections { owner, count, hold_s } => {
            let each = seconds(*hold_s);
            let sections = match count {
                Some(count) => format!("it is acquired {count} times, for {each} each"),
                None => format!("its critical sections take {each} each"),
            };
            format!(
                "{}; {sections}, and a thread that waits takes longer to wake up than the section \
                 takes",
                holds(owner)
            )
        }
        Problem::Contended { owner: Some(owner), is_timed: true, .. } => holds(owner),
        Problem::Contended { owner: Some(owner), .. } => {
            format!("{}; how long it holds it at a time was not recorded", holds(owner))
        }
        Problem::Contended { owner: None, unseen_s: Some(each_s), .. } => format!(
            ", for {} at a time; its owner is not known, since it does not wait itself",
            seconds(*each_s)
        ),
        _ => String::new(),
    }
}

/// Returns a second cause, as the end of a sentence.
fn second(problem: &Problem) -> String {
    match problem {
        Problem::OwnerPreempted { lost: Lost::Free(part), .. } => format!(
            "; it was also free during {} of that time, while the thread that was to have it next \
             had no CPU yet",
            percent(*part)
        ),
        Problem::OwnerPreempted { lost: Lost::Cpu(part) | Lost::HandedOver(part), .. } => {
            format!("; its owner had also lost its CPU during {} of that time", percent(*part))
        }
        Problem::LongSection { hold_s: Some(hold_s), .. } => {
            format!("; each critical section also takes {} of CPU time", seconds(*hold_s))
        }
        Problem::ShortSections { count: Some(count), hold_s, .. } => {
            format!("; it is also acquired {count} times, for {} each", seconds(*hold_s))
        }
        Problem::Hog { sign: HogSign::Holds { run_share, .. }, .. } => {
            format!("; the same thread also holds it for {} of the run", percent(*run_share))
        }
        _ => String::new(),
    }
}

/// Returns the name of the phenomenon if it is a lock convoy.
fn convoy(finding: &Finding) -> &'static str {
    if finding.is_convoy() { ": a lock convoy" } else { "" }
}

/// Returns the threads of a priority inversion, as the end of a sentence.
fn inverted(inversion: &Inversion) -> String {
    let Inversion { waiter, waiter_priority, owner, owner_priority } = inversion;
    let owned = match owner_priority {
        0 => "no real-time priority".to_owned(),
        priority => format!("priority {priority}"),
    };
    format!(
        ": a priority inversion, since thread {waiter} has real-time priority {waiter_priority}, \
         and thread {owner}, the owner, has {owned}"
    )
}

fn preempted(holds: &str, lost: Lost) -> String {
    match lost {
        Lost::Cpu(part) => {
            format!("{holds}; the owner had lost its CPU during {} of that time", percent(part))
        }
        Lost::Free(part) => format!(
            "; during {} of that time it was free, but the thread that was to have it next had no \
             CPU yet",
            percent(part)
        ),
        Lost::HandedOver(part) => format!(
            ", which is handed over to a thread that must wake up first: the owner was on no CPU \
             for {} of the time that it was held",
            percent(part)
        ),
    }
}

fn hog(owner: &convoy_diagnose::Owner, sign: HogSign) -> String {
    let again = "acquires again as soon as it has released it, before a thread that waits has \
                 woken up";
    let holds = holds(owner);
    match sign {
        HogSign::Holds { run_share, hold_s } => format!(
            "{holds} for {} of the run, {} at a time, and {again}",
            percent(run_share),
            seconds(hold_s)
        ),
        HogSign::Futile { futile, wakeups } => {
            format!("{holds} and {again}: {futile} of {wakeups} wakeups were futile")
        }
    }
}

fn long(problem: &Problem) -> String {
    let Problem::LongSection { owner, hold_s, wait_s, off_unexplained, interpreter } = problem
    else {
        return String::new();
    };
    let holds = holds(owner);
    if let Some(part) = interpreter {
        let each =
            hold_s.map_or(String::new(), |time_s| format!(", {} at a time,", seconds(time_s)));
        return format!(
            "{holds}{each} while it runs Python code; for {} of that time it waits for the \
             interpreter's lock, the GIL",
            percent(*part)
        );
    }
    if let (None, Some(wait_s)) = (hold_s, wait_s) {
        return format!("{holds} while it works: others wait {} at a time", seconds(*wait_s));
    }
    let lost = off_unexplained.map_or(String::new(), |part| {
        format!(
            "; its owner was off its CPU during {} of that time, and too few samples were taken \
             to say why",
            percent(part)
        )
    });
    format!("{holds}, {} at a time{lost}", seconds(hold_s.unwrap_or(0.0)))
}

/// Returns whether all these waits are for Python locks whose places are in the interpreter.
fn is_of_python(waits: &[Waited]) -> bool {
    waits.iter().all(|wait| {
        matches!(wait.subject, Subject::Python { .. }) && !convoy_record::is_python(&wait.place)
    })
}

fn deadlock(cycle: Cycle, waits: &[Waited], behind: usize, longest_s: f64) -> String {
    match cycle {
        Cycle::Closed | Cycle::TimedOut => {
            let behind = match behind {
                0 => String::new(),
                1 => " One more thread waits behind them.".to_owned(),
                many => format!(" {many} more threads wait behind them."),
            };
            format!("Deadlock: {}.{behind}", closed(waits))
        }
        Cycle::Stuck => format!(
            "Deadlock: all threads wait for each other, and none is left that could run: {}.",
            open(waits)
        ),
        Cycle::Unreleased => {
            let which = match waits {
                [_] => "a lock that was not released",
                _ => "locks that were not released",
            };
            format!(
                "Deadlock, or an owner that keeps its lock: threads wait for {which} in the last \
                 {} of the record: {}.",
                seconds(longest_s),
                open(waits)
            )
        }
    }
}

fn closed(waits: &[Waited]) -> String {
    let of_python = is_of_python(waits);
    match waits {
        [wait] if wait.owner_ended => format!(
            "thread {} waits in {} for {}, whose owner, thread {}, has ended without releasing it",
            wait.thread,
            wait.place,
            lock(&wait.subject),
            wait.owner.as_deref().unwrap_or("?")
        ),
        [wait] if of_python => format!(
            "thread {} waits for a Python lock (`threading.Lock`) that it already holds",
            wait.thread
        ),
        [wait] => {
            let held = wait.held_at.as_ref();
            let acquired = held.map_or(String::new(), |place| format!(", acquired in {place}"));
            format!(
                "thread {} waits in {} for {}, which it holds itself{acquired}",
                wait.thread,
                wait.place,
                lock(&wait.subject)
            )
        }
        waits if of_python => {
            let threads: Vec<&str> = waits.iter().map(|wait| wait.thread.as_str()).collect();
            format!(
                "the threads {} wait for each other: each of them holds a Python lock \
                 (`threading.Lock`) that another one waits for",
                threads.join(", ")
            )
        }
        waits => waits.iter().map(|wait| link(wait, waits)).collect::<Vec<_>>().join("; "),
    }
}

/// Returns a wait of a cycle, with the lock that its thread holds.
fn link(wait: &Waited, cycle: &[Waited]) -> String {
    let Waited { thread, place, subject, .. } = wait;
    if let Subject::JavaLock { class } = subject {
        let owner = wait.owner.as_deref().unwrap_or("?");
        return format!(
            "thread `{thread}` waits in {place} for the lock of a `{class}` that `{owner}` holds"
        );
    }
    let held = cycle.iter().find(|other| other.owner.as_ref() == Some(thread));
    let holds = held.map_or(String::new(), |held| {
        let acquired =
            held.held_at.as_ref().map_or(String::new(), |place| format!(", acquired in {place}"));
        format!(" and holds {}{acquired}", lock(&held.subject))
    });
    format!("thread {thread} waits in {place} for {}{holds}", lock(subject))
}

/// Returns waits that are no cycle.
fn open(waits: &[Waited]) -> String {
    let texts = waits.iter().map(|wait| {
        let owner = match (&wait.owner, &wait.held_at) {
            (None, _) => String::new(),
            (Some(owner), None) => format!(", which thread {owner} holds"),
            (Some(owner), Some(place)) => {
                format!(", which thread {owner} holds, acquired in {place}")
            }
        };
        format!("thread {} waits in {} for {}{owner}", wait.thread, wait.place, lock(&wait.subject))
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// Returns a Java lock in words: ``the monitor of `Broker.class` ``.
pub(super) fn java_lock(monitor: &JavaMonitor) -> String {
    let class = monitor.class.as_str();
    if monitor.is_notification {
        return "a notification (`Object.wait`)".to_owned();
    }
    if !monitor.is_monitor {
        let name = class.split('$').next().unwrap_or(class);
        let name = name.rsplit('.').next().unwrap_or(name);
        let article = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
        return format!("{article} `{name}`");
    }
    let is_class = class.rsplit('.').next() == Some("class");
    let article = if is_class { "" } else { "a " };
    format!("the monitor of {article}`{class}`")
}

fn java(finding: &Finding, monitor: Option<&JavaMonitor>, is_measured: bool) -> String {
    let is_vague = finding.gaps.iter().any(|gap| matches!(gap, Gap::FewDumps));
    let Some(monitor) = monitor.filter(|_| !is_vague || !is_measured) else {
        return format!("{} ({}).", cost(finding), convoy_record::JAVA);
    };
    let place = finding.waiters.as_ref().and_then(|waiters| waiters.place.as_ref());
    let place = place.unwrap_or(&monitor.place);
    let lock = if !is_measured || monitor.part >= ALONE {
        java_lock(monitor)
    } else {
        format!("Java's monitors, {} of it for {}", percent(monitor.part), java_lock(monitor))
    };
    let about = if is_measured { "" } else { "about " };
    format!(
        "Threads in {place} spent {about}{} of their time waiting for {lock}{}.",
        time(finding),
        java_owner(monitor)
    )
}

/// Returns the owner of a Java lock, after a comma.
fn java_owner(monitor: &JavaMonitor) -> String {
    if let Some(units) = monitor.units {
        let holder = monitor.holder.as_ref().map_or(String::new(), |holder| {
            format!(", such as one in {holder}{}", java_activity(&monitor.activity))
        });
        return format!(", which admits {units:.1} threads at a time on average{holder}");
    }
    let holds = match &monitor.holder {
        None => return String::new(),
        Some(_) if monitor.is_same_place => {
            let method = monitor.place.split(" (").next().unwrap_or(&monitor.place);
            format!(", which another thread in {method} holds")
        }
        Some(holder) => format!(", which {holder} holds"),
    };
    holds + &java_activity(&monitor.activity)
}

/// Returns what the owner of a Java lock does.
fn java_activity(activity: &JavaActivity) -> String {
    match activity {
        JavaActivity::Runs => String::new(),
        JavaActivity::Sleeps { method: None } => " while it sleeps".to_owned(),
        JavaActivity::Sleeps { method: Some(method) } => format!(" while it sleeps in {method}"),
        JavaActivity::Native { method } => format!(" while it calls {method}"),
        JavaActivity::Waits { class, place, holder, is_same_place } => {
            let next = match holder {
                None => String::new(),
                Some(_) if *is_same_place => ", which another thread there holds".to_owned(),
                Some(holder) => format!(", which {holder} holds"),
            };
            format!(" while it waits in {place} for the lock of a `{class}`{next}")
        }
    }
}

fn herd(herd: &Herd, condition: &str) -> String {
    let Herd { from, calls, woken_per_call, place, class, futile, wakeups, .. } = herd;
    if herd.wakers == Wakers::NotifyAll {
        let object = match class {
            Some(class) => format!("a `{class}` in {place}"),
            None => "Object.wait".to_owned(),
        };
        return format!(
            "Java's notifyAll() wakes all threads that wait for an object ({object}), and most \
             find next to nothing to do and wait again ({futile} of {wakeups} times): a thundering \
             herd."
        );
    }
    let calls = match from {
        Some(from) => format!(
            "{from} broadcasts on {condition}, and each of {calls} calls wakes \
             {woken_per_call:.0} threads"
        ),
        None => format!("Broadcasts on {condition} wake one thread after the other"),
    };
    format!(
        "{calls} in {place}, of which most find next to nothing to do and wait again ({futile} \
         times): a thundering herd."
    )
}

fn counter(finding: &Finding, counter: &Counter) -> String {
    let share = percent(finding.share.unwrap_or(0.0));
    match counter {
        Counter::Rwlock { place, count, each_s, moves } => {
            let line = if *moves {
                "whose cache line moves between CPUs"
            } else {
                "whose cache line would move between CPUs if they ran on several"
            };
            format!(
                "Readers of {} in {place} do not wait, but spend {share} of the CPU time to \
                 acquire and release it: each of {count} acquisitions takes {} because all of them \
                 write one counter, {line}.",
                named(finding),
                seconds(*each_s)
            )
        }
        Counter::Additions { place } => format!(
            "Threads do not wait, but spend {share} of the CPU time at atomic additions in \
             {place}: they write one cache line, which moves between CPUs. It contains a counter, \
             such as the reader count of a lock, or several counters next to each other."
        ),
    }
}

fn false_sharing(mover: &Mover, count: f64, each_s: f64) -> String {
    let shares = match mover {
        Mover::SameName { place } => {
            format!("The locks that threads acquire in {place} share cache lines")
        }
        Mover::Locks { locks } => {
            format!("The locks {} share a cache line", list(locks.iter().map(lock).collect()))
        }
        Mover::Data { place } => format!(
            "The lock that one thread acquires in {place} shares a cache line with data that other \
             threads write"
        ),
    };
    format!(
        "{shares}: threads do not wait for each other, but {count:.0} acquisitions took {} each \
         because the line moves between CPUs.",
        seconds(each_s)
    )
}

fn spinning(problem: &Problem) -> String {
    let Problem::Spinning { place, cpu_share, yields, runnable, cpus, is_of_openmp } = problem
    else {
        return String::new();
    };
    let spin = cpu_share.map_or("spin".to_owned(), |share| {
        format!("spend {} of the CPU time spinning", percent(share))
    });
    let purpose = if *is_of_openmp {
        "for other threads, at a barrier or a critical section of OpenMP, or for work"
    } else {
        "for a lock or a flag of the program's own, or for work"
    };
    let yields = yields.as_ref().map_or(String::new(), |(calls, place)| {
        format!(" (sched_yield(2) was called {calls} times, most in {place})")
    });
    let owner = runnable.map_or(String::new(), |threads| {
        format!(
            "; its owner often has no CPU: {threads:.0} threads share {}",
            count(u64::from(*cpus), "CPU")
        )
    });
    format!("Threads {spin} in {place} {purpose}{yields}{owner}.")
}

/// Returns the sleeps of processes, after a semicolon.
pub(super) fn sleeping(sleeps: &[(String, f64)]) -> String {
    if sleeps.is_empty() {
        return String::new();
    }
    let calls = sleeps.iter().map(|(call, part)| format!("{call} ({})", percent(*part)));
    format!("; they sleep in {}", calls.collect::<Vec<_>>().join(" and "))
}

fn processes(
    finding: &Finding,
    waits: &ProcessWaits,
    processes: usize,
    program: &str,
    sleeps: &[(String, f64)],
) -> String {
    let share = percent(finding.share.unwrap_or(0.0));
    let sleeping = sleeping(sleeps);
    match waits {
        ProcessWaits::System { call, object } => format!(
            "{} spent {share} of their time in {call}, waiting for {}.",
            if processes > 1 { "Processes" } else { "Threads" },
            match object {
                SystemLock::File => "the lock of a file, which another process or thread holds",
                SystemLock::Semaphore => "a semaphore of System V, whose units others hold",
            }
        ),
        ProcessWaits::Wakeups { wakeups } => format!(
            "Processes wait for each other: {processes} of them ({program}) spent {share} of their \
             time asleep until another one woke them, {wakeups} times{sleeping}."
        ),
        ProcessWaits::Semaphores { place, waits } => format!(
            "Processes wait for each other: {processes} of them ({program}) spent {share} of their \
             time in {place}, at semaphores that others post ({waits} waits, {}){sleeping}. Only \
             root sees which process wakes which, and whether other sleep is for each other, too.",
            seconds(finding.cost_s)
        ),
    }
}
