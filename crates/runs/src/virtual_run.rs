//! A load point on the virtual kernel: the same jobs as on the host, on a machine of any size.
//!
//! The parent creates the fixtures, forks the users, waits until all are ready, takes t0, waits for
//! the start delay and releases them. Real runs from t0 until the last user ends, so it contains
//! the delay, as AIM7's Real does. The *busy window* is Real without the delay. As in AIM7, one
//! signal to all users releases them: each costs one wakeup ([`convoy_kernel::Gate`]).

mod board;
mod snapshot;

use std::cell::RefCell;
use std::rc::Rc;

pub use convoy_kernel::RcuStats;
use convoy_kernel::sched::SchedStats;
use convoy_kernel::{
    FileSystem, Gate, JournalStats, KernelPreset, Options, Process, StandardInput, World,
    volume_path,
};
use convoy_machine::{Event, Here, Machine, Mode, Preset, Recorder, Watch};
use convoy_workload::api::{Fd, Kernel, Sys};

pub use self::board::Sample;
use self::board::{Board, Console, Goal};
use self::snapshot::Snapshot;
use crate::bulk::BulkUse;
use crate::idle_rules::IdleRules;
use crate::virtual_end::{VirtualError, run_to_end};
use convoy_workload::calibration::Calibration;
use convoy_workload::columns::Columns;
use convoy_workload::fixture::make_listed;
use convoy_workload::jobs::JobEnv;
use convoy_workload::mix::Mix;
use convoy_workload::user::setup;

/// Work directory on the virtual kernel, if there is a single one.
const DIRECTORY: &str = "/tmp/aim7";
/// The listed directory if there are several work directories.
const LISTED: &str = "/bin";
/// Memory of the machine per user, bytes, if 8 GiB are not enough: a machine with a hundred
/// thousand users has room for them.
const MEMORY_PER_USER: u64 = 256 << 10;
/// Machine tasks per user: the user, a child, a grandchild and an exited one that is being reaped.
const TASKS_PER_USER: usize = 4;
/// Additional tasks of the machine; idle tasks are counted separately.
const TASKS_BESIDE: usize = 64;

/// A load point.
#[derive(Clone, Debug)]
pub struct VirtualRun {
    /// The mix.
    pub mix: Mix,
    /// Users.
    pub users: u32,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine.
    pub machine: Preset,
    /// Prices of user-mode work.
    pub calibration: Calibration,
    /// Seed of the order of jobs and of the machine's perturbation.
    pub seed: u64,
    /// Start delay in nanoseconds, inside Real.
    pub start_delay_ns: u64,
    /// Divisor of the mix's pool: the number of users at full size.
    pub pool_users: u32,
    /// Every loop count of a job is divided by this.
    pub shrink: u32,
    /// Whether `shell_rtns_2` sleeps, as in re-aim.
    pub shell_sleep: bool,
    /// The file system of the work directory.
    pub file_system: FileSystem,
    /// Number of such file systems. If there are several, the work directories are their roots, and
    /// `/bin` is the listed directory.
    pub directories: usize,
    /// Size of each, MiB; `None` for half of the memory, or for the default size if that is larger.
    pub fs_mib: Option<u32>,
    /// Nanoseconds from the release to the first count of active tasks; `None` for the time that
    /// follows from the boot.
    pub load_counted_ns: Option<u64>,
    /// The run ends when all users together have finished this many jobs, while all of them are
    /// still working; by default when the last user ends.
    pub jobs_together: Option<u64>,
    /// Whether all tasks are pinned to the first CPU.
    pub pinned: bool,
    /// Interval of [`VirtualPoint::samples`] in nanoseconds; 0 takes none.
    pub sample_ns: u64,
    /// Whether a person at the machine switches from an X server to a shell on another console
    /// every second: two more processes.
    pub console: bool,
    /// File 0 of the users.
    pub input: StandardInput,
}

/// The result.
#[derive(Clone, Debug)]
pub struct VirtualPoint {
    /// Users.
    pub users: u32,
    /// AIM7's columns, including the start delay.
    pub columns: Columns,
    /// Time that the CPUs were not idle during the busy window, seconds.
    pub cpu_s: f64,
    /// The busy window, seconds.
    pub busy_s: f64,
    /// CPU time by [`Mode`] during the busy window, seconds.
    pub modes_s: [f64; 5],
    /// Idle time over the busy window, percent of all CPUs.
    pub idle_percent: f64,
    /// Context switches per second of the busy window.
    pub context_switches_per_s: f64,
    /// Use of the big kernel lock, if the kernel has one.
    pub bkl: Option<BklUse>,
    /// Scheduler counters of the busy window.
    pub sched: SchedStats,
    /// Idle time of the busy window while a task waited on another CPU, by the rule that caused it.
    pub idle_rules: IdleRules,
    /// Time of idle CPUs that tasks waiting on other CPUs could have used, percent of all CPU time:
    /// with one waiting task, only one of 70 idle CPUs counts.
    pub idle_usable_percent: f64,
    /// Time spent spinning on lock words, percent of all CPU time.
    pub spin_percent: f64,
    /// Time spent spinning on lock words that tasks waiting for a CPU could have used, percent of
    /// all CPU time.
    pub spin_beside_percent: f64,
    /// RCU counters of the busy window; all zero if the kernel has no RCU.
    pub rcu: RcuStats,
    /// Jobs done and failed.
    pub jobs_done: u64,
    /// See `jobs_done`.
    pub jobs_failed: u64,
    /// The first job that failed, with its cause.
    pub first_failure: Option<String>,
    /// Simulated memory operations of the whole run.
    pub operations: u64,
    /// System calls of the whole run.
    pub calls: u64,
    /// Counters of the journal of the work directory's file system, if it has one.
    pub journal: Option<JournalStats>,
    /// Bulk operations of the page allocator during the busy window, zone by zone.
    pub bulk: Vec<BulkUse>,
    /// Schedule hash of the whole run.
    pub hash: u64,
    /// The intervals of the run, if requested.
    pub samples: Vec<Sample>,
    /// Latency of each switch of the console in the busy window, milliseconds: from the keystroke
    /// to the drawn screen, and from the key pressed then to the shell's answer.
    pub console_ms: Vec<f64>,
}

/// Use of the big kernel lock during the busy window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BklUse {
    /// Share of the time in which its owner was not on a CPU.
    pub owner_not_running_percent: f64,
    /// Mean time between changes of its owner, milliseconds; not finite if the owner never changed.
    pub owner_change_ms: f64,
    /// Acquisitions per user.
    pub per_user: f64,
    /// Share of the acquisitions that had to queue, percent.
    pub contended_percent: f64,
}

impl VirtualRun {
    /// Returns a load point with `users` users of `mix` and the defaults of the published runs, but
    /// without a start delay.
    pub fn new(mix: Mix, users: u32, kernel: KernelPreset, machine: Preset) -> Self {
        let calibration = Calibration::embedded().expect("the shipped calibration is valid");
        Self {
            mix,
            users,
            kernel,
            machine,
            calibration,
            seed: 1,
            start_delay_ns: 0,
            pool_users: users,
            shrink: 1,
            shell_sleep: false,
            file_system: FileSystem::Tmpfs,
            directories: 1,
            fs_mib: None,
            load_counted_ns: None,
            jobs_together: None,
            pinned: false,
            sample_ns: 0,
            console: false,
            input: StandardInput::Terminal,
        }
    }

    /// Returns the work directories.
    fn places(&self) -> Vec<String> {
        match self.directories {
            ..=1 => vec![DIRECTORY.to_owned()],
            several => (0..several).map(volume_path).collect(),
        }
    }

    fn env(&self, user: u32) -> JobEnv {
        JobEnv {
            directory: DIRECTORY.to_owned(),
            listed: (self.directories > 1).then(|| LISTED.to_owned()),
            dialect: self.mix.dialect,
            user,
            file_kb: self.mix.file_kb(self.pool_users.max(1)),
            seed: self.seed,
            shrink: self.shrink,
            shell_sleep_ns: self.shell_sleep_ns(),
            sync: false,
        }
    }

    /// Runs the load point.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if a job of the mix runs only on the host, if the run cannot be
    /// set up, or if it does not end.
    pub fn run(&self) -> Result<VirtualPoint, VirtualError> {
        self.execute(None)
    }

    /// Runs the load point and reports all events to `recorder`. The result is the same.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if a job of the mix runs only on the host, if the run cannot be
    /// set up, or if it does not end.
    pub fn record(
        &self,
        recorder: Rc<RefCell<dyn Recorder>>,
    ) -> Result<VirtualPoint, VirtualError> {
        self.execute(Some(recorder))
    }

    fn execute(
        &self,
        recorder: Option<Rc<RefCell<dyn Recorder>>>,
    ) -> Result<VirtualPoint, VirtualError> {
        for (job, _) in &self.mix.weights {
            if let Some(reason) = job.host_only() {
                return Err(VirtualError::HostOnly { job: job.name(), reason });
            }
        }
        for unit in convoy_workload::units::UNITS {
            self.calibration.ns(unit.name)?;
        }
        let cpus = self.machine.topology.cpus;
        let threads = if self.kernel.rcu.is_some() { cpus } else { 0 };
        let tasks = self.users as usize * TASKS_PER_USER + TASKS_BESIDE + cpus + threads;
        let machine = Machine::new(&self.machine, self.seed, tasks)
            .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
        if let Some(recorder) = recorder {
            machine.record(recorder);
        }
        let fixed = Options::default();
        let memory = fixed.memory.max(u64::from(self.users) * MEMORY_PER_USER);
        let half = fixed.tmpfs.max(memory / 2);
        let options = Options {
            memory,
            tmpfs: self.fs_mib.map_or(half, |mib| u64::from(mib) << 20),
            file_system: self.file_system,
            volumes: self.directories.max(1),
            processes: tasks,
            input: self.input,
            ..fixed
        };
        let world = World::new(&self.kernel, &self.machine, &self.calibration.ns, options)?;
        let board = Rc::new(Board::default());
        let (run, shared) = (self.clone(), Rc::clone(&board));
        let inner = Rc::clone(&world);
        world.boot(&machine, move |parent| {
            if let Err(what) = run.parent(parent, &inner, &shared) {
                *shared.broken.borrow_mut() = Some(what);
            }
        });
        run_to_end(&machine, self.users, self.seed, &self.kernel.name, &board.broken)?;
        Ok(self.point(&board, &machine, &world))
    }

    /// Creates the files of the jobs in their directories.
    fn fixtures(&self, k: &mut Process, places: &[String]) -> Result<(), String> {
        let mut env = self.env(0);
        if env.listed.is_some() {
            make_listed(k, &env).map_err(|error| format!("names to list: {error}"))?;
        } else {
            k.mkdir(DIRECTORY).map_err(|error| format!("mkdir: {error}"))?;
        }
        for place in places {
            env.directory.clone_from(place);
            setup(k, &env).map_err(|error| format!("fixtures: {error}"))?;
        }
        Ok(())
    }

    /// Returns the number of jobs of all users.
    fn jobs(&self) -> u64 {
        u64::from(self.users) * u64::from(self.mix.jobs_per_user())
    }

    /// Returns the number of jobs that ends the run and the number of all jobs; `None` if all jobs
    /// are done.
    fn part(&self) -> Option<(u64, u64)> {
        let all = self.jobs();
        self.jobs_together.filter(|&jobs| jobs < all).map(|jobs| (jobs, all))
    }

    /// Returns the goal that ends the run before all users have finished, and the descriptor on
    /// which the parent is notified.
    fn goal(&self, k: &mut Process) -> Sys<Option<(Fd, Rc<Goal>)>> {
        let Some((jobs, _)) = self.part() else { return Ok(None) };
        let (over, told) = k.pipe()?;
        Ok(Some((over, Rc::new(Goal { jobs, told }))))
    }

    /// Returns how long `shell_rtns_2` sleeps, nanoseconds; in a part of a run, the corresponding
    /// part.
    fn shell_sleep_ns(&self) -> u64 {
        if !self.shell_sleep {
            return 0;
        }
        let whole = self.mix.shell_sleep_ns(self.shrink);
        self.part().map_or(whole, |(jobs, all)| (whole as f64 * jobs as f64 / all as f64) as u64)
    }

    /// Body of the first process: fixtures, users, release, and waiting for the end.
    fn parent(&self, k: &mut Process, world: &Rc<World>, board: &Rc<Board>) -> Result<(), String> {
        let fail = |call: &str, error: &dyn std::fmt::Display| format!("{call}: {error}");
        if self.pinned {
            world.sched().stay_here();
        }
        let places = Rc::new(self.places());
        self.fixtures(k, &places)?;
        let (ready_read, ready_write) = k.pipe().map_err(|error| fail("pipe", &error))?;
        let gate = Rc::new(Gate::closed());
        let over = self.goal(k).map_err(|error| fail("pipe", &error))?;
        let (over, goal) = over.unzip();
        let cpus = self.machine.topology.cpus;
        for user in 0..self.users {
            let env = self.env(user);
            let order = self.mix.order(self.seed, user);
            let (board, gate, places) = (Rc::clone(board), Rc::clone(&gate), Rc::clone(&places));
            let (goal, world, users) = (goal.clone(), Rc::clone(world), self.users);
            k.fork(move |k| {
                if k.write(ready_write, &[1; 4]).is_err() {
                    return 1;
                }
                k.pause_at(&gate);
                if board.user(k, users, env, &order, &places, goal.as_deref()) {
                    board.end(&world, cpus);
                    return goal.map_or(0, |goal| i32::from(k.write(goal.told, &[1]).is_err()));
                }
                0
            })
            .map_err(|error| fail("fork", &error))?;
        }
        if self.console {
            let console = Console::new(k).map_err(|error| fail("pipe", &error))?;
            for body in [Board::console, Board::shell] {
                let (board, gate) = (Rc::clone(board), Rc::clone(&gate));
                k.fork(move |k| {
                    k.pause_at(&gate);
                    body(&board, k, console);
                    0
                })
                .map_err(|error| fail("fork", &error))?;
            }
        }
        let mut ready = 0;
        while ready < 4 * self.users as usize {
            ready += k.read(ready_read, &mut [0; 1024]).map_err(|error| fail("read", &error))?;
        }
        Here::tell(Event::Label { pid: 0, kind: "the parent of the users", number: 0 });
        board.t0.set(k.now());
        if self.start_delay_ns > 0 {
            k.sleep(self.start_delay_ns);
        }
        *board.released.borrow_mut() = Snapshot::take(world, cpus);
        board.zones.replace(world.page_stats());
        Here::tell(Event::Measure(true));
        k.open_gate(&gate);
        if let Some(ns) = self.load_counted_ns {
            world.sched().rq.count_load_after(ns);
        }
        if self.sample_ns > 0 {
            board.watch(world, cpus, self.sample_ns);
        }
        if let Some(over) = over {
            k.read(over, &mut [0]).map_err(|error| fail("read", &error))?;
            return Ok(());
        }
        for _ in 0..self.users {
            k.wait().map_err(|error| fail("wait", &error))?;
            // AIM7 records the end of a user when its parent's wait() returns.
            board.ends.borrow_mut().push(k.now());
        }
        board.end(world, cpus);
        Ok(())
    }

    fn point(&self, board: &Board, machine: &Machine, world: &World) -> VirtualPoint {
        let t0 = board.t0.get();
        let ends: Vec<f64> =
            board.ends.borrow().iter().map(|&end| (end - t0) as f64 / 1e9).collect();
        let columns = Columns::new(self.users, board.done.get(), &ends);
        let (from, to) = (board.released.borrow(), board.ended.borrow());
        let busy_s = (to.now_ns - from.now_ns) as f64 / 1e9;
        let mut modes_s = [0.0; 5];
        for (mode, seconds) in modes_s.iter_mut().enumerate() {
            *seconds = (to.modes[mode] - from.modes[mode]) as f64 / 1e12;
        }
        let all = busy_s * self.machine.topology.cpus as f64;
        // An idle CPU updates its accounts when it leaves idle, so idle time is the remainder.
        let cpu_s = modes_s.iter().sum::<f64>() - modes_s[Mode::Idle as usize];
        let count = |field: fn(&Watch) -> u64| {
            let value = |shot: &Snapshot| shot.bkl.as_ref().map_or(0, field);
            (value(&to) - value(&from)) as f64
        };
        let acquisitions = count(|watch| watch.acquisitions);
        VirtualPoint {
            users: self.users,
            columns,
            cpu_s,
            busy_s,
            modes_s,
            idle_percent: 100.0 * (1.0 - cpu_s / all).max(0.0),
            context_switches_per_s: (to.sched.switches - from.sched.switches) as f64 / busy_s,
            bkl: to.bkl.as_ref().map(|_| BklUse {
                owner_not_running_percent: count(|watch| watch.owner_not_running) / (busy_s * 1e10),
                owner_change_ms: busy_s * 1e3 / count(|watch| watch.owner_changes),
                per_user: acquisitions / f64::from(self.users),
                contended_percent: 100.0 * count(|watch| watch.contended) / acquisitions.max(1.0),
            }),
            sched: to.sched.since(&from.sched),
            rcu: to.rcu.since(&from.rcu),
            idle_rules: IdleRules::new(&from.idle, &to.idle, all),
            idle_usable_percent: (to.usable_ps - from.usable_ps) as f64 / (all * 1e10),
            spin_percent: 100.0 * modes_s[Mode::Spin as usize] / all,
            spin_beside_percent: (to.spun_beside_ps - from.spun_beside_ps) as f64 / (all * 1e10),
            jobs_done: board.done.get(),
            jobs_failed: board.failed.get(),
            first_failure: board.first_failure.borrow().clone(),
            operations: machine.operations(),
            calls: world.counts().calls.get(),
            journal: world.journal_stats(),
            bulk: board.bulk.take(),
            hash: machine.hash(),
            samples: board.samples.borrow().clone(),
            console_ms: board.console_ms.take(),
        }
    }
}
