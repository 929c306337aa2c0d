//! Unrecorded parts of a process, with reasons.

use serde::{Deserialize, Serialize};

use crate::layout::{
    BY_LIBC, FOREIGN, Header, MUSL, NO_FILE, NO_OBJECT, NO_ROOM, RIGHTS, SANITIZED, STATIC,
};

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
    /// Processes that it forked and that were not recorded, by reason: lack of room, a directory
    /// that they could not open, a limit on memory or files.
    pub children: [u64; 3],
    /// Processes that it forked and that acquired at most a few locks, all of them free, and these
    /// acquisitions. The processes that acquired more are recorded from then on.
    pub brief: [u64; 2],
}

impl Unrecorded {
    /// Returns the counts in the header of a file.
    pub(crate) fn of(header: &Header) -> Self {
        Self {
            threads: header.threads_unroomed,
            acquisitions: header.unrecorded,
            uncounted: 0,
            is_short: header.short > 0,
            is_sandboxed: header.sandboxed == 1,
            children: header.children_lost,
            brief: header.brief,
        }
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
    /// Returns the programs in the header of a file.
    pub(crate) fn all(header: &Header) -> Vec<Self> {
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
        let mut unloaded = Vec::new();
        for program in &header.programs {
            let name: Vec<u8> = program.name.iter().flat_map(|word| word.to_le_bytes()).collect();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let why = WHYS.iter().find(|(word, _)| *word == program.why);
            unloaded.push(Self {
                program: String::from_utf8_lossy(name).into_owned(),
                why: why.map_or(Why::Other, |(_, why)| *why),
                count: program.count,
            });
        }
        unloaded.push(Self { count: header.programs_more, ..Self::default() });
        unloaded.retain(|program| program.count > 0);
        unloaded
    }
}
