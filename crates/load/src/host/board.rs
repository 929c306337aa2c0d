//! The page that a load point's processes share: what each user did, and what must be removed if it
//! is killed.
//!
//! Every word is written by one process (a user's slot by the user, the head by the supervisor) and
//! read by the others after they have seen that process end, which the kernel orders. The
//! exceptions, the keys of System V objects, are read by the supervisor after the user's death too.

use std::sync::atomic::{AtomicU64, Ordering};

use convoy_kernel::Errno;
use convoy_kernel::api::Sys;

use super::sys::SharedWords;
use crate::jobs::{Job, JobError};
use crate::user::JobDone;

/// Words of the head.
const HEAD: usize = 32;
const _: () = assert!((Head::TotalTicks as usize) < TEXT && TEXT + TEXT_WORDS <= HEAD);

/// Words of a slot before its jobs.
const SLOT_HEAD: usize = 32;
/// Words per kind of job.
const JOB_WORDS: usize = 4;
/// First word of the text of a failure, in the head and in a slot.
const TEXT: usize = 10;
/// Words of such a text.
const TEXT_WORDS: usize = 20;

/// One load point's shared memory.
#[derive(Debug)]
pub(crate) struct Board {
    memory: SharedWords,
    users: u32,
}

/// Words of the head, by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// When the users were let go, nanoseconds.
    Start,
    /// How the supervisor ended: an `Outcome`.
    Outcome,
    /// Detail of the outcome: an error number.
    Errno,
    /// Detail of the outcome: a user.
    User,
    /// CPU time of all users, nanoseconds.
    CpuNs,
    /// Context switches of all users.
    Switches,
    /// Users that did not end by themselves.
    Lost,
    /// Process group of the users.
    Group,
    /// Idle ticks of the CPUs between start and end.
    IdleTicks,
    /// All ticks of the CPUs between start and end; 0 if the kernel does not tell.
    TotalTicks,
}

/// What one user has recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    words: &'a [AtomicU64],
}

/// What one user did with one kind of job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobTally {
    pub(crate) runs: u64,
    pub(crate) failures: u64,
    pub(crate) total_ns: u64,
    pub(crate) longest_ns: u64,
}

impl Board {
    /// A board for `users` users.
    pub(crate) fn new(users: u32) -> Sys<Self> {
        let slot = SLOT_HEAD + Job::ALL.len() * JOB_WORDS;
        Ok(Self { memory: SharedWords::new(HEAD + users as usize * slot)?, users })
    }

    /// Number of users.
    pub(crate) fn users(&self) -> u32 {
        self.users
    }

    /// A word of the head.
    pub(crate) fn head(&self, head: Head) -> &AtomicU64 {
        &self.memory.words()[head as usize]
    }

    /// Reads a word of the head.
    pub(crate) fn get(&self, head: Head) -> u64 {
        // Ordering: the writer has ended before the reader looks.
        self.head(head).load(Ordering::Relaxed)
    }

    /// Writes a word of the head.
    pub(crate) fn set(&self, head: Head, value: u64) {
        // Ordering: as in `get`.
        self.head(head).store(value, Ordering::Relaxed);
    }

    /// The supervisor's text about its outcome.
    pub(crate) fn text(&self) -> String {
        load_text(&self.memory.words()[TEXT..TEXT + TEXT_WORDS])
    }

    /// Writes the supervisor's text about its outcome.
    pub(crate) fn set_text(&self, text: &str) {
        store_text(&self.memory.words()[TEXT..TEXT + TEXT_WORDS], text);
    }

    /// The slot of `user`.
    pub(crate) fn slot(&self, user: u32) -> Slot<'_> {
        let size = SLOT_HEAD + Job::ALL.len() * JOB_WORDS;
        let start = HEAD + user as usize * size;
        Slot { words: &self.memory.words()[start..start + size] }
    }

    /// All slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot<'_>> {
        (0..self.users).map(|user| self.slot(user))
    }
}

impl Slot<'_> {
    const BEGUN: usize = 0;
    const ENDED: usize = 1;
    const SEGMENT: usize = 2;
    const SEMAPHORE: usize = 3;
    const ERRNO: usize = 4;
    const CALL: usize = 5;
    const FAILURES: usize = 6;
    const PID: usize = 7;

    fn get(&self, word: usize) -> u64 {
        // Ordering: the user has ended before another process looks.
        self.words[word].load(Ordering::Relaxed)
    }

    fn set(&self, word: usize, value: u64) {
        // Ordering: as in `get`.
        self.words[word].store(value, Ordering::Relaxed);
    }

    /// Notes when the user left the barrier.
    pub(crate) fn begin(&self, ns: u64) {
        self.set(Self::BEGUN, ns);
    }

    /// Notes when the user had run its last job.
    pub(crate) fn end(&self, ns: u64) {
        self.set(Self::ENDED, ns);
    }

    /// When the user left the barrier, if it did.
    pub(crate) fn begun_ns(&self) -> Option<u64> {
        Some(self.get(Self::BEGUN)).filter(|ns| *ns > 0)
    }

    /// When the user had run its last job, if it did.
    pub(crate) fn ended_ns(&self) -> Option<u64> {
        Some(self.get(Self::ENDED)).filter(|ns| *ns > 0)
    }

    /// Notes the key of the shared memory segment that may exist from now on, or that none does.
    pub(crate) fn note_segment(&self, key: Option<i32>) {
        self.set(Self::SEGMENT, key.map_or(0, |key| key as u64 + 1));
    }

    /// Notes the key of the semaphore that may exist from now on, or that none does.
    pub(crate) fn note_semaphore(&self, key: Option<i32>) {
        self.set(Self::SEMAPHORE, key.map_or(0, |key| key as u64 + 1));
    }

    /// The keys of the segment and the semaphore that the user may have left behind.
    pub(crate) fn left_behind(&self) -> (Option<i32>, Option<i32>) {
        let key = |word| self.get(word).checked_sub(1).map(|key| key as i32);
        (key(Self::SEGMENT), key(Self::SEMAPHORE))
    }

    /// The user's process id.
    pub(crate) fn pid(&self) -> i32 {
        self.get(Self::PID) as i32
    }

    /// Notes the user's process id.
    pub(crate) fn set_pid(&self, pid: i32) {
        self.set(Self::PID, pid as u64);
    }

    /// Adds one run of a job.
    pub(crate) fn add(&self, done: &JobDone) {
        let at = SLOT_HEAD + done.job as usize * JOB_WORDS;
        self.set(at, self.get(at) + 1);
        self.set(at + 2, self.get(at + 2) + done.ns);
        self.set(at + 3, self.get(at + 3).max(done.ns));
        if let Err(error) = &done.result {
            self.set(at + 1, self.get(at + 1) + 1);
            self.add_failure(done.job, error);
        }
    }

    fn add_failure(&self, job: Job, error: &JobError) {
        let failures = self.get(Self::FAILURES);
        self.set(Self::FAILURES, failures + 1);
        if failures == 0 {
            let call = if let JobError::Call { call, .. } = error { call } else { "" };
            self.set(Self::ERRNO, error.errno().map_or(0, |errno| errno.0 as u64));
            self.set(Self::CALL, pack(call.as_bytes()));
            let text = format!("{}: {error}", job.name());
            store_text(&self.words[TEXT..TEXT + TEXT_WORDS], &text);
        }
    }

    /// The user's first failure: what, and the error number if there is one.
    pub(crate) fn failure(&self) -> Option<(String, Errno)> {
        let text = load_text(&self.words[TEXT..TEXT + TEXT_WORDS]);
        let errno = Errno(self.get(Self::ERRNO) as i32);
        (self.get(Self::FAILURES) > 0).then_some((text, errno))
    }

    /// Whether the call that failed first was `call`.
    pub(crate) fn failed_in(&self, call: &str) -> bool {
        self.get(Self::FAILURES) > 0 && self.get(Self::CALL) == pack(call.as_bytes())
    }

    /// What the user did with `job`.
    pub(crate) fn tally(&self, job: Job) -> JobTally {
        let at = SLOT_HEAD + job as usize * JOB_WORDS;
        JobTally {
            runs: self.get(at),
            failures: self.get(at + 1),
            total_ns: self.get(at + 2),
            longest_ns: self.get(at + 3),
        }
    }
}

/// The first eight bytes as a word.
fn pack(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

fn store_text(words: &[AtomicU64], text: &str) {
    let mut chunks = text.as_bytes().chunks(8);
    for word in words {
        // Ordering: see the module documentation.
        word.store(chunks.next().map_or(0, pack), Ordering::Relaxed);
    }
}

fn load_text(words: &[AtomicU64]) -> String {
    let bytes: Vec<u8> = words
        .iter()
        // Ordering: see the module documentation.
        .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_what_its_user_did() {
        let board = Board::new(3).expect("memory");
        let done = |ns, result| JobDone { job: Job::PipeCpy, ns, result };
        let slot = board.slot(1);
        slot.add(&done(10, Ok(())));
        let error = JobError::Call { call: "write", errno: Errno::ENOSPC };
        slot.add(&done(30, Err(error)));
        slot.add(&done(20, Err(JobError::Wrong { what: "later" })));
        let tally = slot.tally(Job::PipeCpy);
        assert_eq!(tally, JobTally { runs: 3, failures: 2, total_ns: 60, longest_ns: 30 });
        let (text, errno) = slot.failure().expect("failed");
        assert!(text.starts_with("pipe_cpy: write: no space left"), "{text}");
        assert_eq!(errno, Errno::ENOSPC);
        assert!(slot.failed_in("write") && !slot.failed_in("fork"));
        assert!(board.slot(0).failure().is_none() && board.slot(2).failure().is_none());
    }

    #[test]
    fn keys_are_noted_and_cleared() {
        let board = Board::new(1).expect("memory");
        let slot = board.slot(0);
        slot.note_segment(Some(0x7FFF_FFFF));
        slot.note_semaphore(Some(7));
        assert_eq!(slot.left_behind(), (Some(0x7FFF_FFFF), Some(7)));
        slot.note_segment(None);
        slot.note_semaphore(None);
        assert_eq!(slot.left_behind(), (None, None));
    }

    #[test]
    fn texts_longer_than_their_place_are_cut() {
        let board = Board::new(1).expect("memory");
        board.set_text(&"x".repeat(1000));
        assert_eq!(board.text().len(), TEXT_WORDS * 8);
        board.set_text("short");
        assert_eq!(board.text(), "short");
    }
}
