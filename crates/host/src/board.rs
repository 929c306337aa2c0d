//! The page that a load point's processes share: what each user did, and what must be removed if it
//! is killed.
//!
//! Every word is written by one process (a user's slot by the user, the head by the supervisor) and
//! read by the others after they have seen that process end, which the kernel orders. The
//! exceptions, the keys of System V objects, are read by the supervisor after the user's death too.

use std::sync::atomic::{AtomicU64, Ordering};

use convoy_stats::LogHistogram;
use convoy_workload::Errno;
use convoy_workload::api::Sys;

use super::sys::{SharedWords, Usage};
use convoy_os::clock::{self, CpuTicks};
use convoy_workload::jobs::{Job, JobError};
use convoy_workload::user::JobDone;

/// Words of the head.
const HEAD: usize = 64;
/// First word of the supervisor's text in the head.
const HEAD_TEXT: usize = 32;
const _: () = assert!((Head::TotalTicks as usize) < HEAD_TEXT && HEAD_TEXT + TEXT_WORDS <= HEAD);

/// Words of a slot before its jobs.
const SLOT_HEAD: usize = 32;
/// Words per kind of job.
const JOB_WORDS: usize = 5;
/// First word of the text of a failure in a slot.
const SLOT_TEXT: usize = 12;
/// Words of a text.
const TEXT_WORDS: usize = 20;
const _: () = assert!(SLOT_TEXT + TEXT_WORDS <= SLOT_HEAD);
/// Words of the name of a system call.
const CALL_WORDS: usize = 2;
/// Most sets of latency histograms. Users on different CPUs should not count in the same lines;
/// beyond this, memory is the dearer of the two.
const MOST_SHARDS: u32 = 64;

/// One load point's shared memory.
#[derive(Debug)]
pub(crate) struct Board {
    memory: SharedWords,
    /// Latency histograms: by shard, job and bucket. Untouched pages cost nothing.
    latencies: SharedWords,
    users: u32,
    shards: u32,
    /// The kinds of jobs that the users run, in order.
    kinds: Vec<Job>,
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
    /// CPU time of all users in user mode, nanoseconds.
    UserNs,
    /// CPU time of all users in the kernel, nanoseconds.
    SystemNs,
    /// Context switches of all users that went to sleep.
    Voluntary,
    /// Involuntary context switches of all users.
    Involuntary,
    /// Page faults of all users without input or output.
    MinorFaults,
    /// Page faults of all users that waited for a device.
    MajorFaults,
    /// Users that did not end by themselves.
    Lost,
    /// The first of them, from 1.
    LostUser,
    /// The signal that ended it; 0 if none did.
    LostSignal,
    /// Process group of the users.
    Group,
    /// Ticks of the CPUs between start and end, see [`CpuTicks`].
    UserTicks,
    /// As above.
    SystemTicks,
    /// As above.
    IdleTicks,
    /// As above.
    StealTicks,
    /// As above; 0 if the kernel does not report it.
    TotalTicks,
}

/// The records of one user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    words: &'a [AtomicU64],
    kinds: &'a [Job],
}

/// One user's counts for one kind of job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobTally {
    pub(crate) runs: u64,
    pub(crate) failures: u64,
    pub(crate) total_ns: u64,
    pub(crate) longest_ns: u64,
    /// The first run.
    pub(crate) first_ns: u64,
}

/// The first failure of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotFailure {
    pub(crate) job: Option<Job>,
    /// The system call; empty if the result was wrong.
    pub(crate) call: String,
    pub(crate) errno: Option<Errno>,
    /// Job, call and error in words.
    pub(crate) text: String,
}

impl Board {
    /// A board for `users` users that run `jobs`, each kind at least once among them.
    pub(crate) fn new(users: u32, jobs: &[Job]) -> Sys<Self> {
        let mut kinds = jobs.to_vec();
        kinds.sort_unstable();
        kinds.dedup();
        let slot = SLOT_HEAD + kinds.len() * JOB_WORDS;
        let shards = users.clamp(1, clock::cpus().clamp(1, MOST_SHARDS));
        let latencies = shards as usize * kinds.len() * LogHistogram::BUCKETS;
        Ok(Self {
            memory: SharedWords::new(HEAD + users as usize * slot)?,
            latencies: SharedWords::new(latencies)?,
            users,
            shards,
            kinds,
        })
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

    /// Adds to a word of the head, which only the supervisor writes.
    fn add_to(&self, head: Head, value: u64) {
        self.set(head, self.get(head) + value);
    }

    /// Adds the resource usage of a finished user.
    pub(crate) fn add_usage(&self, usage: &Usage) {
        self.add_to(Head::UserNs, usage.user_ns);
        self.add_to(Head::SystemNs, usage.system_ns);
        self.add_to(Head::Voluntary, usage.voluntary);
        self.add_to(Head::Involuntary, usage.involuntary);
        self.add_to(Head::MinorFaults, usage.minor_faults);
        self.add_to(Head::MajorFaults, usage.major_faults);
    }

    /// Counts a user that did not end by itself; `signal` ended it, if one did.
    pub(crate) fn add_lost(&self, user: u32, signal: Option<i32>) {
        if self.get(Head::Lost) == 0 {
            self.set(Head::LostUser, u64::from(user) + 1);
            self.set(Head::LostSignal, signal.unwrap_or(0) as u64);
        }
        self.add_to(Head::Lost, 1);
    }

    /// Stores the CPU times from `before` to `after`.
    pub(crate) fn set_ticks(&self, before: &CpuTicks, after: &CpuTicks) {
        self.set(Head::UserTicks, after.user.saturating_sub(before.user));
        self.set(Head::SystemTicks, after.system.saturating_sub(before.system));
        self.set(Head::IdleTicks, after.idle.saturating_sub(before.idle));
        self.set(Head::StealTicks, after.steal.saturating_sub(before.steal));
        self.set(Head::TotalTicks, after.total.saturating_sub(before.total));
    }

    /// Returns the CPU times between start and end; `None` if the kernel does not report them.
    pub(crate) fn ticks(&self) -> Option<CpuTicks> {
        let ticks = CpuTicks {
            user: self.get(Head::UserTicks),
            system: self.get(Head::SystemTicks),
            idle: self.get(Head::IdleTicks),
            steal: self.get(Head::StealTicks),
            total: self.get(Head::TotalTicks),
        };
        (ticks.total > 0).then_some(ticks)
    }

    fn latencies_of(&self, shard: u32, job: Job) -> &[AtomicU64] {
        let histogram = shard as usize * self.kinds.len() + place(&self.kinds, job);
        let from = histogram * LogHistogram::BUCKETS;
        &self.latencies.words()[from..from + LogHistogram::BUCKETS]
    }

    /// Adds one run of a job of `user`.
    pub(crate) fn add(&self, user: u32, done: &JobDone) {
        self.slot(user).add(done);
        let counters = self.latencies_of(user % self.shards, done.job);
        // Ordering: a counter; it is read after all users have ended.
        counters[LogHistogram::bucket(done.ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// How long the runs of `job` took, of all users.
    pub(crate) fn latencies(&self, job: Job) -> LogHistogram {
        let longest = self.slots().map(|slot| slot.tally(job).longest_ns).max().unwrap_or(0);
        let mut all = LogHistogram::new();
        for shard in 0..self.shards {
            let counters = self.latencies_of(shard, job);
            // Ordering: as in `add`.
            let counts = counters.iter().map(|counter| counter.load(Ordering::Relaxed));
            all.merge(&LogHistogram::from_counts(counts, longest));
        }
        all
    }

    /// Jobs that all users have done so far; may be asked while they work.
    pub(crate) fn jobs_done(&self) -> u64 {
        self.slots().map(|slot| slot.get(Slot::DONE)).sum()
    }

    /// The supervisor's text about its outcome.
    pub(crate) fn text(&self) -> String {
        load_text(&self.memory.words()[HEAD_TEXT..HEAD_TEXT + TEXT_WORDS])
    }

    /// Writes the supervisor's text about its outcome.
    pub(crate) fn set_text(&self, text: &str) {
        store_text(&self.memory.words()[HEAD_TEXT..HEAD_TEXT + TEXT_WORDS], text);
    }

    /// Whether some user runs `job`.
    pub(crate) fn knows(&self, job: Job) -> bool {
        self.kinds.binary_search(&job).is_ok()
    }

    /// The slot of `user`.
    pub(crate) fn slot(&self, user: u32) -> Slot<'_> {
        let size = SLOT_HEAD + self.kinds.len() * JOB_WORDS;
        let start = HEAD + user as usize * size;
        Slot { words: &self.memory.words()[start..start + size], kinds: &self.kinds }
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
    const FAILURES: usize = 5;
    const PID: usize = 6;
    const DONE: usize = 7;
    const JOB: usize = 8;
    const CALL: usize = 9;
    const CALL_END: usize = Self::CALL + CALL_WORDS;

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
        let words = [Self::SEGMENT, Self::SEMAPHORE];
        words.map(|word| self.get(word).checked_sub(1).map(|key| key as i32)).into()
    }

    /// The user's process id.
    pub(crate) fn pid(&self) -> i32 {
        self.get(Self::PID) as i32
    }

    /// Notes the user's process id.
    pub(crate) fn set_pid(&self, pid: i32) {
        self.set(Self::PID, pid as u64);
    }

    fn add(&self, done: &JobDone) {
        let at = self.tally_at(done.job);
        if self.get(at) == 0 {
            self.set(at + 4, done.ns);
        }
        self.set(at, self.get(at) + 1);
        self.set(at + 2, self.get(at + 2) + done.ns);
        self.set(at + 3, self.get(at + 3).max(done.ns));
        self.set(Self::DONE, self.get(Self::DONE) + 1);
        if let Err(error) = &done.result {
            self.set(at + 1, self.get(at + 1) + 1);
            self.add_failure(done.job, error);
        }
    }

    fn add_failure(&self, job: Job, error: &JobError) {
        let failures = self.get(Self::FAILURES);
        self.set(Self::FAILURES, failures + 1);
        if failures == 0 {
            let call = error.call().unwrap_or_default();
            self.set(Self::ERRNO, error.errno().map_or(0, |errno| errno.0 as u64));
            self.set(Self::JOB, place(self.kinds, job) as u64 + 1);
            store_text(&self.words[Self::CALL..Self::CALL_END], call);
            let text = format!("{}: {error}", job.name());
            store_text(&self.words[SLOT_TEXT..SLOT_TEXT + TEXT_WORDS], &text);
        }
    }

    fn tally_at(&self, job: Job) -> usize {
        SLOT_HEAD + place(self.kinds, job) * JOB_WORDS
    }

    /// The user's first failure.
    pub(crate) fn failure(&self) -> Option<SlotFailure> {
        let failed = self.get(Self::FAILURES) > 0;
        failed.then(|| SlotFailure {
            job: (self.get(Self::JOB) as usize)
                .checked_sub(1)
                .and_then(|job| self.kinds.get(job).copied()),
            call: load_text(&self.words[Self::CALL..Self::CALL_END]),
            errno: Some(Errno(self.get(Self::ERRNO) as i32)).filter(|errno| errno.0 != 0),
            text: load_text(&self.words[SLOT_TEXT..SLOT_TEXT + TEXT_WORDS]),
        })
    }

    /// Returns the user's counts for `job`.
    pub(crate) fn tally(&self, job: Job) -> JobTally {
        let at = self.tally_at(job);
        JobTally {
            runs: self.get(at),
            failures: self.get(at + 1),
            total_ns: self.get(at + 2),
            longest_ns: self.get(at + 3),
            first_ns: self.get(at + 4),
        }
    }
}

/// The place of `job`, which the users run, among `kinds`.
fn place(kinds: &[Job], job: Job) -> usize {
    kinds.binary_search(&job).expect("a board is made for the jobs that its users run")
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
        let board = Board::new(3, &[Job::PipeCpy]).expect("memory");
        let done = |ns, result| JobDone { job: Job::PipeCpy, ns, result };
        board.add(1, &done(10, Ok(())));
        let error = JobError::Call { call: "write", errno: Errno::ENOSPC };
        board.add(1, &done(30, Err(error)));
        board.add(1, &done(20, Err(JobError::Wrong { what: "later" })));
        let tally = board.slot(1).tally(Job::PipeCpy);
        assert_eq!(
            tally,
            JobTally { runs: 3, failures: 2, total_ns: 60, longest_ns: 30, first_ns: 10 }
        );
        let failure = board.slot(1).failure().expect("failed");
        assert!(failure.text.starts_with("pipe_cpy: write: no space left"), "{failure:?}");
        assert_eq!((failure.job, failure.call.as_str()), (Some(Job::PipeCpy), "write"));
        assert_eq!(failure.errno, Some(Errno::ENOSPC));
        assert!(board.slot(0).failure().is_none() && board.slot(2).failure().is_none());
        assert_eq!(board.jobs_done(), 3);
    }

    #[test]
    fn latencies_of_all_users_are_merged() {
        let board = Board::new(5, &[Job::Sieve, Job::AddInt, Job::Sieve]).expect("memory");
        for user in 0..5 {
            let ns = 1000 * u64::from(user + 1);
            board.add(user, &JobDone { job: Job::Sieve, ns, result: Ok(()) });
        }
        let latencies = board.latencies(Job::Sieve);
        assert_eq!((latencies.count(), latencies.max()), (5, Some(5000)));
        let median = latencies.percentile(50.0).expect("counted") as f64;
        assert!((median / 3000.0 - 1.0).abs() < 0.033, "{median}");
        assert_eq!(board.latencies(Job::AddInt).count(), 0);
    }

    #[test]
    fn keys_are_noted_and_cleared() {
        let board = Board::new(1, &[]).expect("memory");
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
        let board = Board::new(1, &[]).expect("memory");
        board.set_text(&"x".repeat(1000));
        assert_eq!(board.text().len(), TEXT_WORDS * 8);
        board.set_text("short");
        assert_eq!(board.text(), "short");
    }
}
