//! What a record does not show, and how to see it.

use convoy_diagnose::{Gap, JavaWaits};
use convoy_record::Scheduler;

use super::cure::VIEWS;
use super::phrase::{self, percent, seconds};
use super::problem::{in_call, sleeping};

/// Returns the gap as a sentence.
pub(crate) fn text(gap: &Gap) -> String {
    match gap {
        Gap::Damaged => "The waits of this record have no finite sum: it is damaged. Record the \
                         program again."
            .to_owned(),
        Gap::Nothing => {
            "Nothing was recorded: no thread used a lock that could be seen.".to_owned()
        }
        Gap::Threads { lost, of } => {
            let part = if lost == of { "none" } else { "not all" };
            format!(
                "The cost of locks is not known: {part} of the {of} threads were recorded ({lost} \
                 were not)."
            )
        }
        Gap::Processes { lost, of } => {
            format!("The cost of locks is not known: {lost} of {of} processes were not recorded.")
        }
        Gap::Tasks { scheduler } => tasks(*scheduler).to_owned(),
        Gap::Atomics { wait_s, count } => format!(
            "The cost of JavaScript's locks is not known: threads waited {} in Atomics.wait, {}, \
             and only the program knows for which thread. Time these calls there \
             (performance.now()), or send messages between the workers instead.",
            seconds(*wait_s),
            phrase::count(*count, "time")
        ),
        Gap::OnlySamples { reason } => format!("The cost of locks is not known: {reason}"),
        Gap::StaticProgram { program } => format!(
            "The cost of locks is not known: `{program}`, which was started, is linked statically, \
             so libc's functions in it cannot be reached; record it as root with kernel events, or \
             give convoy explain the mutex profile of a program in Go (/debug/pprof/mutex)."
        ),
        Gap::FutexWaits => "The cost of locks is not known: threads sleep in futex(2), which the \
                            program calls itself, and only kernel events, as root, show what for."
            .to_owned(),
        Gap::Short { seconds: run_s } => format!(
            "The cost of locks is not known: the run of {} was too short to sample its threads. \
             Record a longer run, or record it as root with kernel events.",
            seconds(*run_s)
        ),
        Gap::ProcessWaits { processes, program, place, waits, sleeps } => {
            process_waits(*processes, program, place, *waits, sleeps)
        }
        Gap::KernelWait { call, share } => format!(
            "The cost of the kernel's locks is not known: threads slept in {} during {} of their \
             time, for such a lock or for a device. Kernel events, as root, distinguish them.",
            in_call(call),
            percent(*share)
        ),
        Gap::PythonFunction => {
            "`py-spy dump` shows the functions of Python while it runs.".to_owned()
        }
        Gap::JavaMonitor { refused, is_short } => java_monitor(refused.as_deref(), *is_short),
        Gap::JavaWaits { waits, lock, wait_s, count, refused } => {
            java_waits(*waits, &waited(lock, *wait_s, *count), refused.as_deref())
        }
        Gap::FewDumps => String::new(),
        Gap::FewSamples { samples } => format!(
            "The owner was sampled {samples} times: record for longer, or as root with kernel \
             events, to see whether it sleeps or has no CPU."
        ),
    }
}

fn java_monitor(refused: Option<&str>, is_short: bool) -> String {
    /// Without a threshold, waits below 10 ms would not be recorded under `profile`.
    const FLIGHT: &str = "Class and method: `java \
                          -XX:StartFlightRecording:filename=run.jfr,settings=profile,\
                          locking-threshold=0ms ...`, then `convoy explain run.jfr`.";
    let why = match refused {
        Some(reason) => format!("Convoy took no thread dump, because {reason}. "),
        None if is_short => {
            "The run was too short for thread dumps, which name the monitor. ".to_owned()
        }
        None => String::new(),
    };
    why + FLIGHT
}

fn waited(lock: &str, wait_s: f64, count: u64) -> String {
    format!("threads waited {} on `{lock}`, {}", seconds(wait_s), phrase::count(count, "time"))
}

fn java_waits(waits: JavaWaits, waited: &str, refused: Option<&str>) -> String {
    match waits {
        JavaWaits::Concurrent => {
            let why = refused.map_or_else(
                || {
                    "too few thread dumps were taken to distinguish them, since these stop the \
                     program and may take 0.5 % of its time"
                        .to_owned()
                },
                |reason| format!("no thread dump distinguishes them, because {reason}"),
            );
            format!(
                "The cost of Java's locks is not known: {waited}, for locks of \
                 java.util.concurrent or for work, and {why}. Record it for longer, or under \
                 -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit."
            )
        }
        JavaWaits::Monitors => format!(
            "The cost of Java's monitors is not known: {waited}. Sampling from outside cannot \
             distinguish monitors from idle threads: start java under `convoy record`, or `jcmd \
             PID JFR.start filename=/tmp/run.jfr settings=profile locking-threshold=0ms \
             duration=10s`, then `convoy explain /tmp/run.jfr`."
        ),
    }
}

fn tasks(scheduler: Scheduler) -> &'static str {
    match scheduler {
        Scheduler::Go => {
            "The cost of locks is not known: goroutines that wait are not visible from outside of \
             the process. Record the process as root, built with symbols (without -ldflags=-s), or \
             give convoy explain Go's mutex profile (runtime.SetMutexProfileFraction, \
             /debug/pprof/mutex)."
        }
        Scheduler::GoChannels => {
            "Go's locks cost little, but goroutines that wait for channels and conditions \
             (sync.Cond) are not recorded: these can limit the program as a lock does. Go's block \
             profile shows these waits (runtime.SetBlockProfileRate, /debug/pprof/block)."
        }
        Scheduler::Tokio => {
            "The cost of locks between tasks is not known: a task of tokio that waits for a lock, \
             a semaphore or a channel of tokio::sync occupies no thread, and is not visible from \
             outside of the process. tokio-console shows such waits (the crate \
             console-subscriber, built with `--cfg tokio_unstable`)."
        }
        Scheduler::Asyncio => {
            "The cost of locks between tasks is not known: a task of asyncio that waits for a \
             lock, a semaphore or a queue occupies no thread, and is not visible from outside of \
             the process. `python -m asyncio ps PID` (Python 3.14) shows what each task waits for; \
             earlier versions print it with `asyncio.all_tasks()` and `Task.print_stack()`."
        }
        Scheduler::DotNet => {
            "The cost of locks is not known: .NET's monitors wait like its idle threads, and its \
             tasks occupy no thread. `dotnet-counters monitor -p PID` counts contended monitors, \
             and `dotnet-trace collect -p PID --providers \
             Microsoft-Windows-DotNETRuntime:0x4000:4` names them."
        }
        Scheduler::Ruby => {
            "The cost of locks is not known: Ruby's threads wait for its interpreter lock (the \
             GVL), for a Mutex and for work in the same functions. `rbspy dump --pid PID` shows \
             where each thread waits, and the gem gvltools (Ruby 3.2) measures the waits for the \
             GVL."
        }
    }
}

fn process_waits(
    processes: usize,
    program: &str,
    place: &str,
    waits: u64,
    sleeps: &[(String, f64)],
) -> String {
    let view = VIEWS.iter().find(|(name, _)| *name == program);
    let view = view.map_or_else(String::new, |(_, view)| {
        format!(" The program's own views name their waits, too ({view}).")
    });
    format!(
        "The cost of waits is not known: {processes} processes of {program} wait for each other in \
         {place}, at semaphores ({waits} times){}. Only kernel events, as root, show whether they \
         sleep for each other there, too.{view}",
        sleeping(sleeps)
    )
}
