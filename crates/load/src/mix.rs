//! Mixes: which jobs a user runs and how often, and how large its files are.

use std::path::Path;

use crate::jobs::Job;
use crate::workfile::{self, WorkfileError};

/// Jobs per user before rounding; AIM7's and re-aim's default.
pub const JOBS_PER_USER: u32 = 100;
/// File size where a workfile says nothing, KB; re-aim's default.
pub const DEFAULT_FILE_KB: u64 = 10;
/// Pool size where a workfile says nothing, KB; re-aim's default.
pub const DEFAULT_POOL_KB: u64 = 1024;

/// The mixes that come with the program: (name, text of the workfile).
const SHIPPED: &[(&str, &str)] = &[("shared", include_str!("../mixes/shared.mix"))];

/// A weighted set of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Name of a shipped mix, or the path of the workfile.
    pub name: String,
    /// Constant part of a user's file, KB.
    pub file_kb: u64,
    /// Part of a user's file that all users share among them, KB.
    pub pool_kb: u64,
    /// Jobs with their weights, in the order of the workfile, weights above zero.
    pub weights: Vec<(Job, u32)>,
}

/// Why there is no such mix.
#[derive(Debug, thiserror::Error)]
pub enum MixError {
    /// Neither a shipped mix nor a readable file.
    #[error(
        "no mix called \"{name}\" and no readable workfile of that name ({source}); \
         use one of: {shipped}, or the path of a workfile"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The shipped mixes.
        shipped: String,
        /// Why it cannot be read as a file.
        source: std::io::Error,
    },
    /// The workfile is wrong.
    #[error(transparent)]
    Workfile(#[from] WorkfileError),
}

impl Mix {
    /// Names of the shipped mixes.
    pub fn shipped() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The shipped mix of that name, else the workfile at that path.
    ///
    /// # Errors
    /// [`MixError`], a usage error: the text names the cure.
    pub fn load(name_or_path: &str) -> Result<Self, MixError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Ok(workfile::parse(name, text)?);
        }
        match std::fs::read_to_string(Path::new(name_or_path)) {
            Ok(text) => Ok(workfile::parse(name_or_path, &text)?),
            Err(source) => Err(MixError::Unknown {
                name: name_or_path.to_owned(),
                shipped: Self::shipped().collect::<Vec<_>>().join(", "),
                source,
            }),
        }
    }

    /// How often each user runs each job: round-half-up of its share of [`JOBS_PER_USER`], at least
    /// once.
    pub fn counts(&self) -> Vec<(Job, u32)> {
        let sum: u64 = self.weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let count = |weight: u32| {
            let twice = 2 * u64::from(weight) * u64::from(JOBS_PER_USER);
            ((twice + sum) / (2 * sum)).max(1) as u32
        };
        self.weights.iter().map(|(job, weight)| (*job, count(*weight))).collect()
    }

    /// Jobs that one user runs.
    pub fn jobs_per_user(&self) -> u32 {
        self.counts().iter().map(|(_, count)| count).sum()
    }

    /// Size of a user's file with `users` users, KB.
    pub fn file_kb(&self, users: u32) -> u64 {
        self.file_kb + self.pool_kb / u64::from(users.max(1))
    }

    /// The order in which `user` runs its jobs.
    pub fn order(&self, seed: u64, user: u32) -> Vec<Job> {
        crate::draw::order(&self.counts(), seed, user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Mix {
        Mix::load("shared").expect("shipped")
    }

    #[test]
    fn shared_is_97_jobs_per_user() {
        let mix = shared();
        assert_eq!(mix.weights.len(), 53);
        assert_eq!(mix.weights.iter().map(|(_, weight)| weight).sum::<u32>(), 780);
        assert_eq!(mix.jobs_per_user(), 97);
        let count = |job| mix.counts().iter().find(|(other, _)| *other == job).map(|pair| pair.1);
        assert_eq!(count(Job::AddInt), Some(4));
        assert_eq!(count(Job::ExecTest), Some(3));
        assert_eq!(count(Job::ShellRtns1), Some(3));
        assert_eq!(count(Job::MiscRtns1), Some(1));
        assert_eq!(count(Job::ShellRtns2), None);
    }

    #[test]
    fn shared_has_the_sizes_of_1996() {
        let mix = shared();
        assert_eq!(mix.file_kb(1), 1024 + 10_240);
        assert_eq!(mix.file_kb(2000), 1024 + 5);
        assert_eq!(mix.file_kb(0), mix.file_kb(1));
    }

    #[test]
    fn order_of_shared_is_golden_for_a_seed() {
        let names: Vec<&str> = shared().order(42, 0).iter().take(8).map(|job| job.name()).collect();
        assert_eq!(names, GOLDEN);
        assert_eq!(shared().order(42, 0).len(), 97);
    }

    /// The first eight jobs of user 0 under seed 42. A change of the draw rule changes every
    /// recorded run.
    const GOLDEN: [&str; 8] = [
        "mul_short",
        "exec_test",
        "dir_rtns_1",
        "string_rtns",
        "mul_int",
        "pipe_cpy",
        "add_double",
        "disk_rw",
    ];

    #[test]
    fn an_unknown_mix_is_named_with_the_known_ones() {
        let error = Mix::load("sharde").expect_err("no such mix").to_string();
        assert!(error.contains("\"sharde\"") && error.contains("shared"), "{error}");
        assert!(!error.contains('\n'));
    }

    #[test]
    fn small_weights_run_at_least_once() {
        let mix = workfile::parse("t", "1000 add_int\n1 fork_test\n").expect("valid");
        assert_eq!(mix.counts(), [(Job::AddInt, 100), (Job::ForkTest, 1)]);
    }

    #[test]
    fn halves_round_up() {
        // 1 of 200 is 0.5 of 100 runs; 3 of 200 is 1.5.
        let mix = workfile::parse("t", "1 add_int\n3 add_long\n196 sieve\n").expect("valid");
        assert_eq!(mix.counts(), [(Job::AddInt, 1), (Job::AddLong, 2), (Job::Sieve, 98)]);
    }
}
