//! The gaps of a record, in sentences.

use convoy_record::{JAVA, JvmWait, Process, UNNAMED, Why, java_wait};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the sentences about acquisitions and processes that were left out of the record.
pub(super) fn left_out(contended: bool, background: usize) -> impl Iterator<Item = String> {
    let fast = contended.then(|| {
        "Only acquisitions that had to wait were recorded (--contended): the others were not \
         counted, and their holds not timed."
            .to_owned()
    });
    let others = (background > 0)
        .then(|| format!("{background} background processes continued when the recording ended."));
    fast.into_iter().chain(others)
}

/// The gaps of the record, in sentences.
pub(super) fn not_seen(
    processes: &[Process],
    programs_lost: [u64; 4],
    switches: u64,
    is_watched: bool,
) -> Vec<String> {
    fn waits(process: &Process) -> u64 {
        let Process { locks, runtime_locks, futexes, .. } = process;
        let locks = locks.iter().chain(runtime_locks).chain(futexes);
        locks.flat_map(|lock| &lock.sites).map(|site| site.wait.count).sum()
    }
    /// Switches that need no explanation: startup and output.
    const FEW: u64 = 1000;
    let mut all = Vec::new();
    if processes.is_empty() && programs_lost == [0; 4] && !is_watched {
        all.push(
            "No process loaded the recorder: the command is a script that starts no program, or a \
             program with more rights than its user."
                .to_owned(),
        );
    }
    all.extend(without_room(processes));
    all.extend(without_object(processes, is_watched));
    all.extend(programs(programs_lost));
    let lost = processes.iter().map(|one| one.acquisitions_lost).sum::<u64>();
    if lost > 0 {
        all.push(format!(
            "{lost} acquisitions were not counted: one thread used more than 768 locks and places."
        ));
    }
    if processes.iter().any(|one| one.threads > one.threads_lost && !one.sees_switches) {
        all.push("Whether owners were off CPU is not known: libc registers no rseq.".to_owned());
    }
    all.extend(gone(processes));
    let links: BTreeSet<_> = processes.iter().flat_map(|one| &one.debug_links).collect();
    all.extend(links.into_iter().map(|(file, link)| {
        format!(
            "{file} has no symbols for places that wait, so they are offsets; its debug data, the \
             file {link}, would name them (in Debian a package that ends in -dbgsym)."
        )
    }));
    // Thread dumps name the methods.
    let undumped =
        || processes.iter().filter(|one| one.java.as_ref().is_none_or(|java| java.dumps == 0));
    let runtimes = undumped().flat_map(|one| &one.runtime_locks);
    let unnamed = runtimes.filter(|lock| lock.sites.iter().any(|site| site.place == UNNAMED));
    let conditions = undumped().flat_map(|one| &one.locks).flat_map(|lock| &lock.sites);
    // What java.util.concurrent waits for is known by the names of its methods alone.
    let parked = conditions
        .filter(|site| site.wait.count > 0 && java_wait(&site.place) == Some(JvmWait::Park));
    if unnamed.into_iter().any(|lock| lock.runtime == JAVA) || parked.count() > 0 {
        all.push(
            "Some methods of Java that waited have no names: run java with \
             -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit (17 or later), or `jcmd PID \
             Compiler.perfmap` before it ends. Methods that were interpreted then stay without."
                .to_owned(),
        );
    }
    let waits: u64 = processes.iter().map(waits).sum();
    if !is_watched && switches > FEW && switches > 4 * waits {
        all.push(format!(
            "The program was switched {switches} times, but waited only {waits} times for what was \
             recorded: the others are input and output, timers, a full machine, or locks that \
             bypass pthread (direct futex calls)."
        ));
    }
    all
}

/// Files that are needed for symbol names and that were deleted or replaced.
fn gone(processes: &[Process]) -> Vec<String> {
    fn wanted(process: &Process, file: &str) -> bool {
        let mark = format!("{file}+0x");
        let locks = process.locks.iter().chain(&process.futexes);
        let mut sites = locks.flat_map(|lock| &lock.sites);
        sites.any(|site| site.place.starts_with(&mark))
    }
    let mut all = BTreeSet::new();
    for process in processes {
        all.extend(process.gone.iter().filter(|(file, _)| wanted(process, file)).cloned());
    }
    let has_servers = std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
    let servers = if has_servers { "; --symbols debuginfod asks the servers for it" } else { "" };
    let sentence = |(file, build_id): (String, String)| {
        format!(
            "The file {file} that ran is gone, or another one is there now, so its places are \
             offsets; convoy explain --symbols DIR names them by the file in DIR with the build-id \
             {build_id}{servers}."
        )
    };
    all.into_iter().map(sentence).collect()
}

/// Threads and processes that were not recorded, with the reason and the cure.
fn without_room(processes: &[Process]) -> Vec<String> {
    fn of(processes: &[&Process], threads: u64) -> String {
        let count = processes.iter().map(|one| one.unrecorded.acquisitions).sum::<u64>();
        match (count, threads) {
            (_, 0) => format!("Some {count} acquisitions were not recorded"),
            (0, 1) => "A thread was not recorded".to_owned(),
            (0, _) => format!("{threads} threads were not recorded"),
            (_, 1) => format!("Some {count} acquisitions of a thread were not recorded"),
            _ => format!("Some {count} acquisitions of {threads} threads were not recorded"),
        }
    }
    let (free, sandboxed): (Vec<&Process>, Vec<&Process>) =
        processes.iter().partition(|one| !one.unrecorded.is_sandboxed);
    let lost = |of: &[&Process]| of.iter().map(|one| one.threads_lost).sum::<u64>();
    let unroomed = free.iter().map(|one| one.unrecorded.threads).sum::<u64>();
    let mut all = Vec::new();
    if unroomed > 0 {
        all.push(format!(
            "{}: there was no room for them in the directory of the recording; name one with more \
             (--buffer DIR), or allow more (--buffer-size SIZE).",
            of(&free, unroomed)
        ));
    }
    if lost(&free) > unroomed {
        all.push(format!(
            "{}: the limit of live threads was reached.",
            of(&free, lost(&free) - unroomed)
        ));
    }
    if lost(&sandboxed) > 0 || sandboxed.iter().any(|one| one.unrecorded.acquisitions > 0) {
        all.push(format!(
            "{}: the process had limited its system calls.",
            of(&sandboxed, lost(&sandboxed))
        ));
    }
    all.extend(without_children(&free, &sandboxed));
    let uncounted = free.iter().map(|one| one.unrecorded.uncounted).sum::<u64>();
    if uncounted > 0 {
        all.push(format!(
            "{uncounted} acquisitions were not counted, and not all waits have their times: there \
             was no room in the directory of the recording; name one with more (--buffer DIR), or \
             allow more (--buffer-size SIZE)."
        ));
    } else if free.iter().any(|one| one.unrecorded.is_short && one.unrecorded.threads == 0) {
        all.push(
            "Not all waits have their times: there was no room in the directory of the recording; \
             name one with more (--buffer DIR), or allow more (--buffer-size SIZE)."
                .to_owned(),
        );
    }
    if !sandboxed.is_empty() {
        all.push(
            "A process limited its system calls (seccomp) or forbade the time stamp counter \
             (PR_SET_TSC): from then on the recorder asked the kernel for nothing, so threads and \
             locks that came later may be missing."
                .to_owned(),
        );
    }
    all
}

const NO_ROOM: &str =
    "there was no room in the directory of the recording (--buffer DIR, --buffer-size)";
const NO_WAY: &str = "the directory of the recording cannot be opened from there (another root)";
const LIMITED: &str =
    "no file of 230 MB may be opened, written or mapped there (ulimit -n, -f, -v)";

/// Programs that were started and not recorded, in sentences by reason.
fn programs(lost: [u64; 4]) -> impl Iterator<Item = String> {
    let filtered = "their system calls were limited before they started (seccomp, PR_SET_TSC)";
    let all = lost.into_iter().zip([NO_ROOM, NO_WAY, LIMITED, filtered]);
    all.filter(|(count, _)| *count > 0).map(|(count, why)| match count {
        1 => format!("A program that was started was not recorded: {why}."),
        _ => format!("{count} programs that were started were not recorded: {why}."),
    })
}

/// Processes that were forked and not recorded, in sentences by reason.
fn without_children(free: &[&Process], sandboxed: &[&Process]) -> Vec<String> {
    let [room, place, limit] = children(free);
    let barred = children(sandboxed).iter().sum();
    let mut all = Vec::new();
    let of_all = || free.iter().chain(sandboxed).map(|one| one.unrecorded.brief);
    let [brief, acquired] = [0, 1].map(|number| of_all().map(|brief| brief[number]).sum::<u64>());
    if brief > 0 {
        all.push(format!(
            "Forked processes are recorded from their 17th acquisition, or from their first wait: \
             {brief} had {acquired} earlier ones, all of free locks."
        ));
    }
    for (count, why) in [
        (room, NO_ROOM),
        (place, NO_WAY),
        (limit, LIMITED),
        (barred, "its parent had limited its system calls"),
    ] {
        if count > 0 {
            all.push(match count {
                1 => format!("A process that was forked was not recorded: {why}."),
                _ => format!("{count} processes that were forked were not recorded: {why}."),
            });
        }
    }
    all
}

/// Processes that were not recorded, by reason.
fn children(processes: &[&Process]) -> [u64; 3] {
    [0, 1, 2].map(|why| processes.iter().map(|one| one.unrecorded.children[why]).sum())
}

/// Programs that were started without the object, a sentence for each reason.
fn without_object(processes: &[Process], is_watched: bool) -> Vec<String> {
    /// Names in a sentence.
    const NAMES: usize = 6;
    let mut by_reason: BTreeMap<Why, BTreeMap<&str, u64>> = BTreeMap::new();
    for one in processes.iter().flat_map(|process| &process.unloaded) {
        let count = by_reason.entry(one.why).or_default().entry(&one.program).or_default();
        *count = count.saturating_add(one.count);
    }
    let named = |(name, count): (&&str, &u64)| match count {
        1 => format!("`{name}`"),
        _ => format!("`{name}` ({count} times)"),
    };
    let seen = if is_watched { ", recorded by kernel events only" } else { "" };
    let sentence = |(why, programs): (Why, BTreeMap<&str, u64>)| {
        if why == Why::Other {
            let count = programs.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
            return format!("{count} further starts of programs were without the recorder{seen}.");
        }
        let mut names: Vec<String> = programs.iter().take(NAMES).map(named).collect();
        if programs.len() > NAMES {
            names.push(format!("{} more programs", programs.len() - NAMES));
        }
        format!("Without the recorder ran {}{seen}: {}.", names.join(", "), reason(why))
    };
    by_reason.into_iter().map(sentence).collect()
}

/// Why a program ran without the object.
fn reason(why: Why) -> &'static str {
    match why {
        Why::Static => "statically linked",
        Why::Foreign => "for another kind of machine",
        Why::Musl => "linked to musl, and the recorder to glibc",
        Why::Sanitizer => "built with a sanitizer, which wants to be loaded first",
        Why::Rights => "more rights than the user that started it",
        Why::Unreadable => "the file cannot be read",
        Why::Unreachable => {
            "the recorder's object cannot be opened from there (another root or user)"
        }
        Why::TooLong => "the environment was cleared, and is too long for the recorder's variables",
        Why::ByLibc => "started by system(3) or popen(3) after the environment was cleared",
        Why::Other => "not known",
    }
}

/// That no mutex was what `--lock` names.
pub(super) fn not_chosen(processes: &[Process], locks: &[(String, String)]) -> Option<String> {
    let none = processes.iter().all(|process| process.chosen == 0);
    (none && !locks.is_empty()).then(|| {
        let sites: Vec<&str> = locks.iter().map(|(site, _)| site.as_str()).collect();
        format!(
            "No mutex was made or first taken at {}: all kept their lock. A mutex counts where it \
             is made or first taken; name that place, or all that explain lists for it.",
            sites.join(", ")
        )
    })
}
