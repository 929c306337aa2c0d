//! Which of several work directories a job works in.

use std::collections::BTreeMap;

use crate::dialect::Dialect;
use crate::draw::Lcg;
use crate::jobs::{Job, JobEnv};

/// The turns of one user.
///
/// In 1996 every job that works in a directory takes the next one; users begin one after the other.
/// In re-aim a user begins anywhere, and a kind of job takes the next directory when it is first
/// drawn and keeps it.
#[derive(Clone, Debug)]
pub struct Rotation {
    dialect: Dialect,
    directories: usize,
    next: usize,
    kept: BTreeMap<Job, usize>,
}

impl Rotation {
    /// Returns the rotation of the user of `env` over `directories` directories, at least one.
    pub fn new(env: &JobEnv, directories: usize) -> Self {
        let first = match env.dialect {
            Dialect::Original => env.user as usize,
            Dialect::Reaim => usize::from(Lcg::for_user(env.seed, env.user).draw()),
        };
        Self { dialect: env.dialect, directories, next: first, kept: BTreeMap::new() }
    }

    /// The index of the directory of the next run of `job`.
    pub fn take(&mut self, job: Job) -> usize {
        if !job.takes_directory() {
            return self.next % self.directories;
        }
        let taken = match self.dialect {
            Dialect::Original => self.next,
            Dialect::Reaim => *self.kept.entry(job).or_insert(self.next),
        };
        if self.dialect == Dialect::Original || taken == self.next {
            self.next += 1;
        }
        taken % self.directories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(dialect: Dialect, jobs: &[Job]) -> Vec<usize> {
        let env = JobEnv { dialect, user: 2, ..JobEnv::new("", 10) };
        let mut rotation = Rotation::new(&env, 3);
        jobs.iter().map(|job| rotation.take(*job)).collect()
    }

    #[test]
    fn jobs_of_1996_take_turns_and_kinds_of_reaim_keep_theirs() {
        let jobs = [Job::DiskRr, Job::AddInt, Job::DiskRr, Job::CreatClo, Job::DiskRr];
        assert_eq!(taken(Dialect::Original, &jobs), [2, 0, 0, 1, 2]);
        let reaim = taken(Dialect::Reaim, &jobs);
        assert_eq!((reaim[0], reaim[0]), (reaim[2], reaim[4]), "{reaim:?}");
        assert_eq!(reaim[3], (reaim[0] + 1) % 3, "{reaim:?}");
    }
}
