//! Processes and their threads, from `/proc`.

use std::collections::BTreeMap;
use std::io;

/// Fields of the file `stat` of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The state as one letter, such as `R` for a thread that runs or could run.
    pub state: char,
    /// Process ID of the parent. It is 0 for a parent outside of this PID namespace, as are the
    /// next two fields.
    pub parent: i32,
    /// Process group.
    pub group: i32,
    /// Session.
    pub session: i32,
    /// CPU time, in ticks; that of a process includes threads that have ended.
    pub cpu: u64,
    /// When it started, in ticks since boot. Together with its ID, it identifies a process.
    pub started: u64,
    /// Scheduling policy: 0 is the normal one, 1 and 2 are `SCHED_FIFO` and `SCHED_RR`, 6 is
    /// `SCHED_DEADLINE`.
    pub policy: u32,
    /// Real-time priority, 1 to 99; 0 under other policies.
    pub priority: u32,
}

impl Stat {
    /// Reads the fields of a process, or returns `None` if it does not exist.
    pub fn of(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads the fields of a thread, or returns `None` if it does not exist.
    pub fn of_thread(pid: u32, thread: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).ok()?)
    }

    /// Returns the CPU time in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.cpu as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Returns whether it has not ended.
    pub fn is_alive(&self) -> bool {
        !['Z', 'X'].contains(&self.state)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name in parentheses may contain spaces and parentheses itself.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_whitespace().collect();
        let number = |field: usize| fields.get(field)?.parse().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            cpu: fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?,
            started: fields.get(19)?.parse().ok()?,
            policy: number(38).unwrap_or(0) as u32,
            priority: number(37).unwrap_or(0) as u32,
        })
    }
}

/// Returns the name of a thread, at most 15 bytes, or `None` if it has ended.
pub fn name(pid: u32, thread: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/task/{thread}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// Returns the IDs of all processes.
pub fn all() -> Vec<u32> {
    numbers("/proc")
}

/// Returns the IDs of the threads of a process; empty if it has ended.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// Returns the children of a process that have not ended.
pub fn children(pid: i32) -> Vec<(u32, Stat)> {
    let all = all().into_iter().filter_map(|child| Some((child, Stat::of(child)?)));
    all.filter(|(_, stat)| stat.is_alive() && stat.parent == pid).collect()
}

/// Returns the children of a process that have not ended, their children, and so on.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut children = BTreeMap::<i32, Vec<u32>>::new();
    for (child, stat) in all().into_iter().filter_map(|child| Some((child, Stat::of(child)?))) {
        if stat.is_alive() {
            children.entry(stat.parent).or_default().push(child);
        }
    }
    let mut descendants = children.remove(&(pid as i32)).unwrap_or_default();
    let mut next = 0;
    while let Some(parent) = descendants.get(next) {
        descendants.extend(children.remove(&(*parent as i32)).unwrap_or_default());
        next += 1;
    }
    descendants
}

fn numbers(directory: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the time that a thread ran, and the time that it waited in a run queue, in nanoseconds.
/// Returns `None` if it has ended or the kernel does not count.
pub fn schedule_ns(pid: u32, thread: u32) -> Option<[u64; 2]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    Some([numbers.next()??, numbers.next()??])
}

/// Returns the command line of a process; empty if it has ended.
pub fn command(pid: u32) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Returns the text of the memory map of a process, see [`mappings`].
///
/// # Errors
/// The process does not exist, or belongs to another user.
pub fn maps(pid: u32) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/{pid}/maps"))
}

/// A line of a memory map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Address of its first byte.
    pub start: u64,
    /// Address after its last byte.
    pub end: u64,
    /// Whether its code can be executed.
    pub is_code: bool,
    /// Whether only its own process can write to it.
    pub is_private: bool,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Major and minor number of the device of the file, and its inode number.
    pub file: (u32, u32, u64),
    /// Path of the file, or `None` for memory without one.
    pub path: Option<&'a str>,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let offset = hex(words.next()?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        let file = (hex(major)? as u32, hex(minor)? as u32, words.next()?.parse().ok()?);
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            is_code: rights.contains('x'),
            is_private: rights.ends_with('p'),
            offset,
            file,
            path: line.find('/').map(|begin| &line[begin..]),
        })
    }
}

/// Returns the mappings in the text of a memory map. Other lines are skipped.
pub fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    maps.lines().filter_map(Mapping::parse)
}

/// Returns the field with this name in the text of a file such as `/proc/PID/status`.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_a_name_with_any_characters() {
        let numbers: Vec<String> = (4..50).map(|field| field.to_string()).collect();
        let text = format!("7 (a) b) S {}", numbers.join(" "));
        let stat = Stat::parse(&text).expect("fields");
        assert_eq!((stat.state, stat.parent, stat.group, stat.session), ('S', 4, 5, 6));
        assert_eq!((stat.cpu, stat.started, stat.policy), (14 + 15, 22, 41));
        assert_eq!(Stat::parse("7 (a"), None);
        let own = Stat::of(std::process::id()).expect("this process");
        assert!(own.is_alive() && own.started > 0, "{own:?}");
        assert!(threads(std::process::id()).len() > 1);
    }

    #[test]
    fn descendants_include_children_of_children() {
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", "sleep 100 & echo $!; read line; kill $!"]);
        let shell = shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().expect("it starts");
        let output = shell.stdout.take().expect("its output");
        let mut child = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(output), &mut child).expect("a line");
        let child = child.trim().parse().expect("a process ID");
        let descendants = descendants(std::process::id());
        drop(shell.stdin.take());
        shell.wait().expect("it ends");
        assert!(descendants.contains(&shell.id()) && descendants.contains(&child));
    }

    #[test]
    fn lines_of_a_memory_map_are_read() {
        let maps = "1000-2000 r-xp 00000800 fd:01 12  /no/such/lib.so\n\
                    2000-3000 rw-s 00000000 00:00 0\nno line\n";
        let found: Vec<Mapping<'_>> = mappings(maps).collect();
        let path = Some("/no/such/lib.so");
        let code = Mapping {
            start: 0x1000,
            end: 0x2000,
            is_code: true,
            is_private: true,
            offset: 0x800,
            file: (0xfd, 1, 12),
            path,
        };
        assert_eq!(found[0], code);
        assert_eq!((found[1].is_code, found[1].is_private, found[1].path), (false, false, None));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn fields_have_whole_names() {
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(field(status, "voluntary_ctxt_switches"), Some("12"));
        assert_eq!(field(status, "Threads"), None);
    }
}
