//! Mixes: which jobs a user runs and how often, and how large its files are.

use convoy_catalogue::{MIXES, Source};
use serde::{Deserialize, Serialize};

use crate::dialect::Dialect;
use crate::jobs::Job;
use crate::sizes::{Convention, SizeError, Sizes, Stated};

/// Jobs per user before rounding; AIM7's and re-aim's default.
pub const JOBS_PER_USER: u32 = 100;

/// The only mix with sizes in re-aim's workfile.
const SIZED_BY_REAIM: &str = "aim9";
/// How long re-aim's second shell script sleeps, nanoseconds.
const SHELL_SLEEP_NS: u64 = 5_000_000_000;

/// A weighted set of jobs. A record holds what decides a run: sizes, jobs and weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// What titles call it.
    #[serde(skip)]
    pub name: String,
    /// Its source.
    #[serde(skip)]
    pub source: Source,
    /// The original of the jobs.
    pub dialect: Dialect,
    /// The sizes in force.
    pub sizes: Sizes,
    /// The sizes that the workfile sets.
    #[serde(skip)]
    pub live: Stated,
    /// The sizes that the workfile has as comments.
    #[serde(skip)]
    pub commented: Stated,
    /// Jobs per user before rounding, at least 1.
    pub jobs: u32,
    /// Jobs with their weights, in the order of the workfile, weights above zero.
    pub weights: Vec<(Job, u32)>,
    /// Each user runs only this many jobs, the first of its order: a shorter run of the same mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
    /// Weights of lines that later lines for the same job override; they count in the sum.
    pub overridden: u64,
    /// Notes for users of the workfile, one line each.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Mix {
    /// Names of the shipped mixes.
    pub fn shipped() -> impl Iterator<Item = &'static str> {
        MIXES.names()
    }

    /// A mix of one job, for measuring it by itself.
    pub fn of_job(job: Job) -> Self {
        Self {
            first: None,
            name: job.name().to_owned(),
            source: Source::of_text(job.name(), &format!("1 {}\n", job.name())),
            dialect: Dialect::default(),
            sizes: Sizes::REAIM,
            live: Stated::default(),
            commented: Stated::default(),
            jobs: JOBS_PER_USER,
            weights: vec![(job, 1)],
            overridden: 0,
            notes: Vec::new(),
        }
    }

    /// Puts the sizes of `convention` in force.
    ///
    /// # Errors
    /// [`SizeError::NotStated`] if the sizes of 1996 are asked for and the workfile has none,
    /// neither live nor as a comment.
    pub fn set_sizes(&mut self, convention: Convention) -> Result<(), SizeError> {
        self.sizes = match convention {
            Convention::Workfile => self.live.or_default(),
            Convention::Original => {
                let stated = self.live.or(self.commented);
                if stated.is_empty() {
                    return Err(SizeError::NotStated { mix: self.name.clone() });
                }
                stated.or_default()
            }
            Convention::Reaim if self.name == SIZED_BY_REAIM => self.live.or_default(),
            Convention::Reaim => Sizes::REAIM,
        };
        Ok(())
    }

    /// Runs the jobs of `dialect`, on the sizes that its program takes from such a workfile.
    pub fn set_dialect(&mut self, dialect: Dialect) {
        self.dialect = dialect;
        let sizes = match dialect {
            Dialect::Original => Convention::Original,
            Dialect::Reaim if self.source.path.is_some() => Convention::Workfile,
            // re-aim's copies of the shipped mixes have the lines as comments.
            Dialect::Reaim => Convention::Reaim,
        };
        // A mix that states no sizes of 1996 keeps the default.
        let _keeps = self.set_sizes(sizes);
    }

    /// How often each user runs each job: round-half-up of its share of [`Self::jobs`], at least
    /// once.
    pub fn counts(&self) -> Vec<(Job, u32)> {
        let listed: u64 = self.weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let sum = listed + self.overridden;
        let count = |weight: u32| {
            let twice = 2 * u64::from(weight) * u64::from(self.jobs);
            ((twice + sum) / (2 * sum)).max(1) as u32
        };
        self.weights.iter().map(|(job, weight)| (*job, count(*weight))).collect()
    }

    /// Jobs that one user runs.
    pub fn jobs_per_user(&self) -> u32 {
        let all = self.counts().iter().map(|(_, count)| count).sum();
        self.first.map_or(all, |first| first.min(all))
    }

    /// How long `shell_rtns_2` of re-aim sleeps, nanoseconds: 5 s, as its script does when its
    /// argument is below ten, which it always is. Work that is left out, by `shrink` or since a
    /// user does only its first jobs, shortens the sleep alike: a user's longest sleep stays the
    /// same share of its work.
    pub fn shell_sleep_ns(&self, shrink: u32) -> u64 {
        let all: u32 = self.counts().iter().map(|(_, count)| count).sum();
        let of_these = SHELL_SLEEP_NS * u64::from(self.jobs_per_user()) / u64::from(all.max(1));
        of_these / u64::from(shrink.max(1))
    }

    /// Size of a user's file with `users` users, KB.
    pub fn file_kb(&self, users: u32) -> u64 {
        self.sizes.of_user(users)
    }

    /// The order in which `user` runs its jobs.
    pub fn order(&self, seed: u64, user: u32) -> Vec<Job> {
        let mut order = crate::draw::order(&self.counts(), seed, user);
        order.truncate(self.first.map_or(usize::MAX, |first| first as usize));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workfile;

    fn shared() -> Mix {
        Mix::load("shared").expect("shipped")
    }

    #[test]
    fn the_first_jobs_are_those_that_the_whole_run_begins_with() {
        let whole = shared();
        let short = Mix { first: Some(12), ..shared() };
        assert_eq!(short.jobs_per_user(), 12);
        for user in 0..50 {
            assert_eq!(short.order(3, user), whole.order(3, user)[..12]);
        }
        assert_eq!(Mix { first: Some(1000), ..shared() }.jobs_per_user(), 97);
    }

    #[test]
    fn the_sleep_shrinks_with_the_work() {
        let whole = Mix::load("high_systime").expect("shipped");
        assert_eq!(whole.shell_sleep_ns(1), 5_000_000_000);
        assert_eq!(whole.shell_sleep_ns(100), 50_000_000);
        let half = Mix { first: Some(whole.jobs_per_user() / 2), ..whole };
        assert_eq!(half.shell_sleep_ns(1), 2_500_000_000);
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
    fn every_mix_has_the_jobs_per_user_of_the_original() {
        let expected = [
            ("aim9", 120),
            ("all_utime", 102),
            ("alltests", 98),
            ("compute", 101),
            ("custom", 95),
            ("dbase", 99),
            ("disk", 100),
            ("five_sec", 99),
            ("fserver", 101),
            ("high_systime", 104),
            ("long", 108),
            ("new_dbase", 103),
            ("new_fserver", 98),
            ("shared", 97),
            ("short", 102),
        ];
        let counted: Vec<(&str, u32)> = Mix::shipped()
            .map(|name| (name, Mix::load(name).expect("shipped").jobs_per_user()))
            .collect();
        assert_eq!(counted, expected);
    }

    #[test]
    fn every_mix_has_the_weights_of_the_original() {
        // The sums of facts: what is listed, and what later lines override.
        let sums = [600, 170, 980, 820, 410, 550, 400, 220, 595, 260, 180, 570, 580, 780, 340];
        for (name, expected) in Mix::shipped().zip(sums) {
            let mix = Mix::load(name).expect("shipped");
            let sum: u32 = mix.weights.iter().map(|(_, weight)| weight).sum();
            assert_eq!(sum, expected, "{name}");
            assert_eq!(mix.overridden, if name == "alltests" { 20 } else { 0 }, "{name}");
            assert_eq!(mix.notes.len(), usize::from(name == "alltests"), "{name}");
        }
    }

    #[test]
    fn both_conventions_of_sizes_are_there_by_name() {
        fn sized(name: &str, convention: Convention) -> Result<(u64, u64), SizeError> {
            let mut mix = Mix::load(name).expect("shipped");
            mix.set_sizes(convention).map(|()| (mix.sizes.file_kb, mix.sizes.pool_kb))
        }
        for (name, sizes) in [
            ("aim9", (5120, 1024)),
            ("all_utime", (10, 10_240)),
            ("compute", (100, 256_000)),
            ("dbase", (1024, 25_600)),
            ("disk", (10, 100)),
            ("fserver", (10_240, 20_480)),
            ("long", (100, 1024)),
            ("new_dbase", (1024, 25_600)),
            ("new_fserver", (10_240, 20_480)),
            ("shared", (1024, 10_240)),
            ("short", (1024, 10_240)),
        ] {
            assert_eq!(sized(name, Convention::Original).expect("stated"), sizes, "{name}");
        }
        for name in Mix::shipped() {
            let file = if name == "aim9" { 5120 } else { 10 };
            assert_eq!(sized(name, Convention::Reaim), Ok((file, 1024)), "{name}");
        }
        let live = |name| sized(name, Convention::Workfile).expect("always");
        assert_eq!(live("fserver"), (10_240, 20_480));
        assert_eq!(live("new_fserver"), (10, 1024), "its sizes are comments");
        let error = sized("high_systime", Convention::Original).expect_err("states none");
        assert!(error.to_string().starts_with("high_systime states no sizes of 1996; use"));
    }

    #[test]
    fn the_number_of_jobs_can_be_another() {
        let mut mix = shared();
        mix.jobs = 1000;
        // Six kinds of weight 30 run 38 times, 13 of 20 run 26 times, 34 of 10 run 13 times.
        assert_eq!(mix.jobs_per_user(), 6 * 38 + 13 * 26 + 34 * 13);
        assert_eq!(Mix::of_job(Job::CreatClo).counts(), [(Job::CreatClo, 100)]);
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
    fn a_copy_of_a_mix_is_called_a_copy() {
        let path = std::env::temp_dir().join(format!("shared-{}", std::process::id()));
        std::fs::write(&path, "10 add_int\n").expect("written");
        let mix = Mix::load(path.to_str().expect("text")).expect("valid");
        std::fs::remove_file(&path).expect("removed");
        let source = mix.source;
        assert!(source.changed && mix.name.ends_with(&format!(" ({})", &source.hash[..8])));
        let shipped = shared();
        assert_eq!(shipped.name, "shared");
        assert!(!shipped.source.changed);
    }

    #[test]
    fn re_aim_takes_sizes_from_the_workfile() {
        let path = std::env::temp_dir().join(format!("sized-{}", std::process::id()));
        std::fs::write(&path, "FILESIZE: 3M\nPOOLSIZE: 0k\n10 add_int\n").expect("written");
        let mut mix = Mix::load(path.to_str().expect("text")).expect("valid");
        std::fs::remove_file(&path).expect("removed");
        mix.set_dialect(Dialect::Reaim);
        assert_eq!((mix.sizes.file_kb, mix.sizes.pool_kb), (3072, 1024), "0k states nothing");
    }

    #[test]
    fn an_unknown_mix_is_named_with_the_known_ones() {
        let error = Mix::load("sharde").expect_err("no such mix").to_string();
        assert!(error.contains("\"sharde\"") && error.contains("did you mean shared?"), "{error}");
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
