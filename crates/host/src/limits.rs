//! The limits that thousands of users meet, checked before they are started.
//!
//! The requirement of a point is an upper bound: every user in its most demanding job at the same
//! time. A limit that cannot be read is ignored. Soft limits are raised to the hard ones first,
//! which needs no privilege.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Shortage;
use crate::workdir;
use convoy_os::groups::{self, MEMORY, PIDS};
use convoy_workload::fixture;
use convoy_workload::jobs::Job;

/// Processes of run control: program, supervisor, anchor; and some for the user's shell.
const OWN_PROCESSES: u64 = 8;
/// Processes below a user in its most demanding job: a child, the shell it starts, the script's
/// shell, a listing.
const SHELL_PROCESSES: u64 = 4;
/// Descriptors of a process: the standard three, locks, pipes and signals of run control, and the
/// files of a job.
const DESCRIPTORS: u64 = 20;
/// Open files of a user in the whole system; descriptors that a fork inherits are not counted.
const OPEN_FILES: u64 = 6;
/// Memory of a user, KB: its stack and heap, 1 MB of `page_test` or `sieve`, page tables.
const USER_KB: u64 = 2048;
/// Pages of a segment of `shared_memory`, of 4 KB.
const SEGMENT_PAGES: u64 = 16;
/// Names of a user in a directory.
const USER_NAMES: u64 = 4;
/// Names of the fixture, and some: a tmpfs counts an inode for each name of a file.
const FIXTURE_NAMES: u64 =
    (fixture::TREE_NAMES + fixture::BIN_NAMES + fixture::DIRECTORIES + 32) as u64;

/// Memory of run control, KB: program, supervisor, anchor, the table of results.
const OWN_KB: u64 = 8192;

/// Requirements of a load point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need<'a> {
    pub(super) users: u32,
    pub(super) jobs: &'a [(Job, u32)],
    pub(super) file_kb: u64,
    pub(super) directories: &'a [std::path::PathBuf],
}

/// Available resources; `None` if there is no limit or it cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Have {
    /// Processes and threads that exist.
    processes: u64,
    /// `ulimit -u`; not for a privileged user.
    user_processes: Option<u64>,
    pid_max: Option<u64>,
    threads_max: Option<u64>,
    /// Processes that the control group still admits, and its file.
    group_pids: Option<(u64, String)>,
    /// `ulimit -n`.
    descriptors: Option<u64>,
    /// `fs.file-max` less the files open.
    files: Option<u64>,
    /// Ephemeral ports.
    ports: Option<(u64, u64)>,
    /// `kernel.sem`: SEMMSL, SEMMNS, SEMOPM, SEMMNI.
    semaphores: Option<[u64; 4]>,
    semaphores_used: u64,
    segments: Option<u64>,
    segments_used: u64,
    segment_pages: Option<u64>,
    segment_bytes: Option<u64>,
    /// Memory that can be had, KB.
    memory_kb: Option<u64>,
    /// Memory that the control group still admits, in KB, and its file.
    group_memory: Option<(u64, String)>,
    /// Of each work directory.
    places: Vec<Place>,
}

/// Returns the limits that are too low for `need`; raises soft limits if this helps.
pub(super) fn shortages(need: &Need<'_>) -> Vec<Shortage> {
    raise(Resource::Nofile);
    raise(Resource::Nproc);
    find(need, &Have::now(need.directories))
}

fn find(need: &Need<'_>, have: &Have) -> Vec<Shortage> {
    let mut found = Vec::new();
    processes(need, have, &mut found);
    files_and_ports(need, have, &mut found);
    ids(need, have, &mut found);
    room(need, have, &mut found);
    found
}

/// Adds a shortage if `need` exceeds what there is.
fn lack(
    found: &mut Vec<Shortage>,
    what: &'static str,
    need: u64,
    have: Option<u64>,
    cure: impl FnOnce(u64) -> String,
) {
    if let Some(have) = have.filter(|have| *have < need) {
        found.push(Shortage { what, need, have, cure: cure(need) });
    }
}

impl Need<'_> {
    fn runs(&self, names: &[&str]) -> bool {
        self.jobs.iter().any(|(job, _)| names.contains(&job.name()))
    }
}

fn processes(need: &Need<'_>, have: &Have, found: &mut Vec<Shortage>) {
    let below = if need.runs(&["shell_rtns_1", "shell_rtns_2", "shell_rtns_3"]) {
        SHELL_PROCESSES
    } else {
        u64::from(need.runs(&["exec_test", "fork_test"]))
    };
    let new = u64::from(need.users) * (1 + below) + OWN_PROCESSES;
    let all = new + have.processes;
    lack(found, "processes of a user", new, have.user_processes, |n| format!("ulimit -u {n}"));
    lack(found, "process ids", all, have.pid_max, |n| format!("sysctl -w kernel.pid_max={n}"));
    lack(found, "threads", all, have.threads_max, |n| format!("sysctl -w kernel.threads-max={n}"));
    if let Some((left, file)) = &have.group_pids {
        let cure = |n| format!("echo {n} > {file}");
        lack(found, "processes of the control group", new, Some(*left), cure);
    }
}

fn files_and_ports(need: &Need<'_>, have: &Have, found: &mut Vec<Shortage>) {
    let users = u64::from(need.users);
    let own = DESCRIPTORS + need.directories.len() as u64;
    lack(found, "open files of a process", own, have.descriptors, |n| format!("ulimit -n {n}"));
    let files = users * OPEN_FILES + own;
    lack(found, "open files", files, have.files, |n| format!("sysctl -w fs.file-max={}", 2 * n));
    if need.runs(&["tcp_test", "udp_test"]) {
        // One of the pair has a separate port; TCP's listener has one, too.
        let ports = have.ports.map(|(first, last)| (last + 1).saturating_sub(first));
        let cure = |_| "sysctl -w net.ipv4.ip_local_port_range='1024 65535'".to_owned();
        lack(found, "ports", users * 2, ports, cure);
    }
}

fn ids(need: &Need<'_>, have: &Have, found: &mut Vec<Shortage>) {
    if !need.runs(&["shared_memory"]) {
        return;
    }
    let users = u64::from(need.users);
    let sets = users + have.semaphores_used;
    if let Some([per_set, all, operations, _]) = have.semaphores {
        let (wide, deep) = (per_set.max(1), operations.max(1));
        let cure = |n: u64| {
            format!("sysctl -w kernel.sem='{wide} {} {deep} {n}'", all.max(n * wide.min(32)))
        };
        lack(found, "semaphore sets", sets, have.semaphores.map(|limits| limits[3]), cure);
        let cure = |n: u64| format!("sysctl -w kernel.sem='{wide} {n} {deep} {}'", sets.max(n));
        lack(found, "semaphores", sets, Some(all), cure);
    }
    let segments = users + have.segments_used;
    let cure = |n| format!("sysctl -w kernel.shmmni={n}");
    lack(found, "shared memory segments", segments, have.segments, cure);
    let cure = |n| format!("sysctl -w kernel.shmall={n}");
    lack(found, "shared memory pages", segments * SEGMENT_PAGES, have.segment_pages, cure);
    let cure = |n| format!("sysctl -w kernel.shmmax={n}");
    lack(found, "bytes of a segment", SEGMENT_PAGES * 4096, have.segment_bytes, cure);
}

fn room(need: &Need<'_>, have: &Have, found: &mut Vec<Shortage>) {
    let users = u64::from(need.users);
    let sized = need.jobs.iter().any(|(job, _)| job.depends_on_file_size());
    let here = users.div_ceil(have.places.len().max(1) as u64);
    // The common file, and one temporary file of each user.
    let files_kb = (1 + if sized { here } else { 0 }) * need.file_kb + 1024;
    for place in &have.places {
        let path = &place.path;
        let cure =
            |_| format!("smaller files with --filesize and --poolsize, or --dir other than {path}");
        lack(found, "room for files, KB", files_kb, Some(place.room_kb), cure);
        let cure = |_| format!("remove files, or --dir other than {path}");
        lack(found, "inodes", here * USER_NAMES + FIXTURE_NAMES, place.names, cure);
    }
    let in_memory = have.places.iter().filter(|place| place.is_in_memory).count() as u64;
    let memory = users * USER_KB + OWN_KB + in_memory * files_kb;
    let files = if in_memory > 0 {
        ", make files smaller (--filesize, --poolsize), put them on a disk (--dir)"
    } else {
        ""
    };
    let cure = |_| format!("use fewer users{files} or free memory");
    lack(found, "memory, KB", memory, have.memory_kb, cure);
    if let Some((left, file)) = &have.group_memory {
        let cure = |_| format!("use fewer users{files} or raise {file}");
        lack(found, "memory of the control group, KB", memory, Some(*left), cure);
    }
}

/// A file system of work directories.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: String,
    room_kb: u64,
    /// Inodes left, where there is a table of them.
    names: Option<u64>,
    /// Whether its files are in memory.
    is_in_memory: bool,
}

impl Have {
    fn now(directories: &[std::path::PathBuf]) -> Self {
        let privileged = rustix::process::geteuid().is_root();
        Self {
            processes: existing_processes(),
            user_processes: current(Resource::Nproc).filter(|_| !privileged),
            pid_max: number("/proc/sys/kernel/pid_max"),
            threads_max: number("/proc/sys/kernel/threads-max"),
            group_pids: groups::left(&PIDS),
            descriptors: current(Resource::Nofile),
            files: files_left(),
            ports: numbers("/proc/sys/net/ipv4/ip_local_port_range")
                .and_then(|range| Some((*range.first()?, *range.get(1)?))),
            semaphores: numbers("/proc/sys/kernel/sem").and_then(|all| all.try_into().ok()),
            semaphores_used: lines("/proc/sysvipc/sem"),
            segments: number("/proc/sys/kernel/shmmni"),
            segments_used: lines("/proc/sysvipc/shm"),
            segment_pages: number("/proc/sys/kernel/shmall"),
            segment_bytes: number("/proc/sys/kernel/shmmax"),
            memory_kb: memory_kb(),
            group_memory: groups::left(&MEMORY).map(|(bytes, file)| (bytes >> 10, file)),
            places: directories.iter().filter_map(|path| place(path)).collect(),
        }
    }
}

fn current(resource: Resource) -> Option<u64> {
    getrlimit(resource).current
}

/// Raises the soft limit to the hard one.
fn raise(resource: Resource) {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let _not_allowed = setrlimit(resource, Rlimit { current: maximum, maximum });
}

fn numbers(path: &str) -> Option<Vec<u64>> {
    let text = std::fs::read_to_string(path).ok()?;
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

fn number(path: &str) -> Option<u64> {
    numbers(path)?.first().copied()
}

/// Lines of a table without its heading.
fn lines(path: &str) -> u64 {
    std::fs::read_to_string(path).unwrap_or_default().lines().skip(1).count() as u64
}

/// The fourth word of the load averages is `runnable/all`.
fn existing_processes() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let word = text.split_whitespace().nth(3).and_then(|word| word.split_once('/'));
    word.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

fn files_left() -> Option<u64> {
    let all = numbers("/proc/sys/fs/file-nr")?;
    Some(all.get(2)?.saturating_sub(*all.first()?))
}

fn memory_kb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn place(path: &Path) -> Option<Place> {
    let limits = rustix::fs::statvfs(path).ok()?;
    let room_kb = limits.f_bavail.saturating_mul(limits.f_frsize) / 1024;
    // A file system without a table of inodes says 0 of 0.
    let names = (limits.f_files > 0).then_some(limits.f_favail);
    let is_in_memory = workdir::is_tmpfs(path);
    Some(Place { path: path.display().to_string(), room_kb, names, is_in_memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plenty() -> Have {
        Have {
            processes: 100,
            user_processes: Some(100_000),
            pid_max: Some(100_000),
            threads_max: Some(100_000),
            group_pids: Some((100_000, "/sys/fs/cgroup/pids.max".to_owned())),
            descriptors: Some(1024),
            files: Some(1_000_000),
            ports: Some((32_768, 60_999)),
            semaphores: Some([32_000, 1_024_000, 500, 32_000]),
            semaphores_used: 3,
            segments: Some(4096),
            segments_used: 2,
            segment_pages: Some(1 << 40),
            segment_bytes: Some(1 << 40),
            memory_kb: Some(100_000_000),
            group_memory: Some((100_000_000, "/sys/fs/cgroup/memory.max".to_owned())),
            places: vec![Place {
                path: "/w".to_owned(),
                room_kb: 100_000_000,
                names: Some(1_000_000),
                is_in_memory: false,
            }],
        }
    }

    fn short_of(users: u32, change: impl FnOnce(&mut Have)) -> Vec<Shortage> {
        let mut have = plenty();
        change(&mut have);
        let jobs =
            [(Job::SharedMemory, 1), (Job::ShellRtns1, 1), (Job::TcpTest, 1), (Job::DiskWrt, 1)];
        find(&Need { users, jobs: &jobs, file_kb: 1029, directories: &[] }, &have)
    }

    #[test]
    fn enough_is_enough() {
        assert_eq!(short_of(2000, |_| ()), []);
        let jobs = [(Job::AddInt, 1)];
        let need = Need { users: 5000, jobs: &jobs, file_kb: 10, directories: &[] };
        assert_eq!(find(&need, &plenty()), [], "no segments, no shells, no ports");
    }

    #[test]
    fn files_in_memory_need_memory() {
        // 2000 users of 2 MB, and a file of 1029 KB of each.
        let between = |h: &mut Have| h.group_memory = Some((5 << 20, "/g/memory.max".to_owned()));
        assert_eq!(short_of(2000, between), []);
        let found = short_of(2000, |have| {
            between(have);
            have.places[0].is_in_memory = true;
        });
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("put them on a disk (--dir)"), "{}", found[0]);
    }

    #[test]
    fn each_shortage_names_its_cure() {
        type Change = fn(&mut Have);
        let cases: [(Change, &str); 14] = [
            (|h| h.user_processes = Some(8000), "ulimit -u 10008"),
            (|h| h.pid_max = Some(10_107), "sysctl -w kernel.pid_max=10108"),
            (|h| h.threads_max = Some(10_107), "sysctl -w kernel.threads-max=10108"),
            (|h| h.group_pids = Some((9, "/g/pids.max".to_owned())), "echo 10008 > /g/pids.max"),
            (|h| h.descriptors = Some(10), "ulimit -n 20"),
            (|h| h.files = Some(100), "sysctl -w fs.file-max="),
            (|h| h.ports = Some((32_768, 33_000)), "net.ipv4.ip_local_port_range"),
            (|h| h.semaphores = Some([250, 32_000, 32, 128]), "kernel.sem='250 64096 32 2003'"),
            (|h| h.segments = Some(2001), "sysctl -w kernel.shmmni=2002"),
            (|h| h.segment_pages = Some(9), "sysctl -w kernel.shmall=32032"),
            (|h| h.memory_kb = Some(1000), "fewer users"),
            (|h| h.group_memory = Some((60 << 10, "/g/memory.max".to_owned())), "/g/memory.max"),
            (|h| h.places[0].room_kb = 2_000_000, "--dir other than /w"),
            (|h| h.places[0].names = Some(8400), "remove files"),
        ];
        for (change, cure) in cases {
            let found = short_of(2000, change);
            assert_eq!(found.len(), 1, "{cure}: {found:?}");
            assert!(found[0].to_string().contains(cure), "{}", found[0]);
            assert!(found[0].have < found[0].need);
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let have = Have::now(&["/".into()]);
        assert!(have.processes > 0 && have.pid_max.is_some() && have.descriptors.is_some());
        assert_eq!(have.places.len(), 1);
    }
}
