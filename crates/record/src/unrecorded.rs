//! Unrecorded parts of a process, with reasons; and the text for a record with almost no waits.

use serde::{Deserialize, Serialize};

use crate::account::{Account, seconds};
use crate::layout::{
    BY_LIBC, FOREIGN, GROWN, H_CHILDREN_LOST, H_PROGRAMS_MORE, H_SANDBOXED, H_SHORT,
    H_THREADS_UNROOMED, H_UNRECORDED, MUSL, NO_FILE, NO_OBJECT, NO_ROOM, P_COUNT, P_NAME, P_WHY,
    PROGRAM_COUNT, PROGRAM_WORDS, PROGRAMS, RIGHTS, SANITIZED, STATIC,
};
use crate::record::{Process, Record, total};

/// Threads, acquisitions and forked processes that a record lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unrecorded {
    /// Threads for which the directory of the recording had no room.
    pub threads: u64,
    /// Acquisitions of threads that were not recorded, as far as they were counted.
    pub acquisitions: u64,
    /// Acquisitions of recorded threads that were not counted, because there was no room for a
    /// table of their locks and places.
    pub uncounted: u64,
    /// Whether anything had no room in the directory of the recording.
    pub is_short: bool,
    /// Whether it limited its system calls while it was recorded.
    pub is_sandboxed: bool,
    /// Processes that it forked and that were not recorded: for want of room, because they could
    /// not open the directory, and by a limit on memory or files.
    pub children: [u64; 3],
}

impl Unrecorded {
    /// Returns the counts in the header of a file.
    pub(crate) fn of(header: &[u64]) -> Self {
        Self {
            threads: header[H_THREADS_UNROOMED],
            acquisitions: header[H_UNRECORDED],
            uncounted: 0,
            is_short: header[H_SHORT] > 0,
            is_sandboxed: header[H_SANDBOXED] == 1,
            children: [0, 1, 2].map(|why| header[H_CHILDREN_LOST + why]),
        }
    }

    /// Whether all was recorded.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a program ran without the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// It is linked statically.
    Static,
    /// It is a program for another kind of machine.
    Foreign,
    /// It is linked to musl.
    Musl,
    /// It is built with a sanitizer.
    Sanitizer,
    /// It has more rights than the user that starts it.
    Rights,
    /// Its file cannot be read.
    Unreadable,
    /// The object cannot be opened by the process that starts it.
    Unreachable,
    /// Its environment lacked the variables of the recorder and was too long for them.
    TooLong,
    /// It was started by system(3) or popen(3), and the environment lacked the variables.
    ByLibc,
    /// There was no room for its name and the reason.
    #[default]
    #[serde(other)]
    Other,
}

/// A program that a process started without the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unloaded {
    /// Name of its file, at most 40 bytes.
    pub program: String,
    /// The reason.
    pub why: Why,
    /// How often it was started.
    pub count: u64,
}

impl Unloaded {
    /// Returns those in the header of a file.
    pub(crate) fn all(header: &[u64]) -> Vec<Self> {
        const WHYS: [(u64, Why); 9] = [
            (STATIC, Why::Static),
            (FOREIGN, Why::Foreign),
            (MUSL, Why::Musl),
            (SANITIZED, Why::Sanitizer),
            (RIGHTS, Why::Rights),
            (NO_FILE, Why::Unreadable),
            (NO_OBJECT, Why::Unreachable),
            (NO_ROOM, Why::TooLong),
            (BY_LIBC, Why::ByLibc),
        ];
        let of = |program: &[u64]| {
            let name: Vec<u8> =
                program[P_NAME..].iter().flat_map(|word| word.to_le_bytes()).collect();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let why = WHYS.iter().find(|(word, _)| *word == program[P_WHY]);
            Self {
                program: String::from_utf8_lossy(name).into_owned(),
                why: why.map_or(Why::Other, |(_, why)| *why),
                count: program[P_COUNT],
            }
        };
        let more = Self { count: header[H_PROGRAMS_MORE], ..Self::default() };
        let words = &header[PROGRAMS..][..PROGRAM_COUNT * PROGRAM_WORDS];
        let all = words.chunks(PROGRAM_WORDS).map(of).chain([more]);
        all.filter(|one| one.count > 0).collect()
    }
}

impl Process {
    /// Adds acquisitions that a thread did not count: either its table of locks and places was
    /// full, or there was no room for one.
    pub(crate) fn add_lost(&mut self, grown: u64, count: u64) {
        let lost = match grown {
            GROWN => &mut self.acquisitions_lost,
            _ => &mut self.unrecorded.uncounted,
        };
        *lost = total([*lost, count]);
    }
}

impl Account {
    /// Returns the first sentence if locks cost little.
    pub fn elsewhere(&self, record: &Record) -> String {
        if let Some(doubt) = doubt(record) {
            return doubt;
        }
        let calls = total(self.locks.iter().map(|one| one.lock.count()));
        match self.condition(record.program.wall_s) {
            _ if calls == 0 => {
                "Nothing was recorded: no thread used a lock that could be seen.".to_owned()
            }
            Some(one) => format!(
                "Locks cost little: threads waited {} for them. They waited longer for work or for \
                 each other, {} on {}, {} times.",
                seconds(self.wait_s),
                seconds(one.lock.wait_s()),
                one.place(),
                one.lock.count()
            ),
            None => format!(
                "Locks cost little: threads waited {} for them in {calls} acquisitions.",
                seconds(self.wait_s)
            ),
        }
    }
}

/// Returns the limits of a record with almost no waits, because much was not recorded.
fn doubt(record: &Record) -> Option<String> {
    /// The unrecorded share, in percent, beyond which the record is not conclusive.
    const MUCH: u64 = 10;
    let all = &record.processes;
    let is_much = |lost: u64, of: u64| lost > 0 && lost.saturating_mul(100) >= of * MUCH;
    let lost = all.iter().map(|one| one.threads_lost).sum();
    let threads = all.iter().map(|one| one.threads).sum();
    if is_much(lost, threads) {
        let all = if lost == threads { "none" } else { "not all" };
        return Some(format!(
            "What locks cost is not known: {all} of the {threads} threads were recorded ({lost} \
             were not)."
        ));
    }
    let children = all.iter().flat_map(|one| one.unrecorded.children);
    let children = total(children.chain(record.program.programs_lost));
    let processes = (all.len() as u64).saturating_add(children);
    is_much(children, processes).then(|| {
        format!(
            "What locks cost is not known: {children} of {processes} processes were not recorded."
        )
    })
}
