//! Laws for records written by hand, of programs whose throughput follows from arithmetic: alone,
//! and while other programs use one of two CPUs. Each record has a prediction, and both records of
//! a program have the same one.

use convoy_kernel::KernelPreset;
use convoy_predict::{
    Choice, Effort, Limit, Machines, Prediction, Question, Reason, SLEEP, Station, predict,
};
use convoy_record::{Kind, Lock, Process, Program, Record, Scheduling, Site, Times, Waiters};

/// Length of the run, seconds, and the CPUs on which it was recorded.
const SECONDS: f64 = 2.0;
const RECORDED: f64 = 2.0;
const THREADS: u64 = 16;
const CPUS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// A time slice, after which a thread loses its CPU, seconds (`base_slice_ns`, 2.8 ms).
const SLICE_S: f64 = 2.8e-3;

fn times(count: u64, each_us: f64) -> Times {
    let each_s = each_us / 1e6;
    let buckets = if count > 0 { vec![(each_us * 1e3, count)] } else { Vec::new() };
    Times { count, total_s: count as f64 * each_s, max_s: each_s, buckets }
}

/// A program with threads that hold a lock, work outside of it, and then sleep.
#[derive(Clone, Copy)]
struct Law {
    kind: Kind,
    act: &'static str,
    /// Locks of its name.
    locks: u64,
    /// Microseconds.
    hold_us: f64,
    think_us: f64,
    sleep_us: f64,
}

impl Law {
    /// Returns the cycles per second with this number of CPUs.
    fn rate(&self, cpus: f64) -> f64 {
        let work_us = self.hold_us + self.think_us;
        let threads = THREADS as f64 / (work_us + self.sleep_us);
        1e6 * threads.min(cpus / work_us)
    }

    /// Returns the record with the CPUs that other programs left.
    fn record(&self, others: f64) -> Record {
        let rate = self.rate(RECORDED - others);
        let count = (rate * SECONDS) as u64;
        let cpu_s = rate * SECONDS * (self.hold_us + self.think_us) / 1e6;
        let slept_s = rate * SECONDS * self.sleep_us / 1e6;
        // Threads that do not run or sleep wait for a CPU, after each slice.
        let waiting_s = THREADS as f64 * SECONDS - cpu_s - slept_s;
        let lost = (cpu_s / SLICE_S) as u64;
        let lost_us = 1e6 * waiting_s / lost.max(1) as f64;
        let in_hold = (lost as f64 * (self.hold_us / (self.hold_us + self.think_us))) as u64;
        let sleeps = self.sleep_us > 0.0;
        let (think_on, think_off) = if sleeps {
            (Times::default(), times(count, self.think_us + self.sleep_us))
        } else {
            let away = lost - in_hold;
            (times(count - away, self.think_us), times(away, self.think_us + lost_us))
        };
        let site = Site {
            place: "cycle (laws.c:9)".to_owned(),
            act: self.act.to_owned(),
            count,
            threads: THREADS,
            regulars: THREADS,
            hold_on: times(count - in_hold, self.hold_us),
            hold_off: times(in_hold, self.hold_us + lost_us),
            think_on,
            think_off,
            ..Site::default()
        };
        let lock = Lock {
            name: "own".to_owned(),
            kind: self.kind,
            instances: self.locks,
            sites: vec![site],
            ..Lock::default()
        };
        let scheduling = Scheduling {
            preemptions: lost,
            preempted_s: waiting_s,
            sleeps: if sleeps { count } else { 0 },
            asleep_s: slept_s,
            ..Scheduling::default()
        };
        let process = Process {
            seconds: SECONDS,
            cpu_s,
            threads: THREADS,
            sees_switches: true,
            scheduling: Some(scheduling),
            locks: vec![lock],
            ..Process::default()
        };
        let mut program = Program { cpus: RECORDED as u32, wall_s: SECONDS, ..Program::default() };
        program.disturbance.seconds = SECONDS;
        program.disturbance.others_s = others * SECONDS;
        Record { program, processes: vec![process], ..Record::default() }
    }

    /// Tests the record with and without other programs, each after `change`.
    fn holds(&self, change: impl Fn(&mut Record)) {
        for others in [0.0, 1.0] {
            let mut record = self.record(others);
            change(&mut record);
            let found = prediction(&record);
            assert_eq!(found.reason, None, "{others}: {found:#?}");
            assert_eq!(found.rows.len(), CPUS.len(), "{others}: {found:#?}");
            for row in &found.rows {
                let known = self.rate(f64::from(row.cpus)) / self.rate(RECORDED);
                let part = (1.0 + row.change_percent / 100.0) / known;
                assert!((0.9..1.1).contains(&part), "{others}: {part} of {known}: {row:#?}");
            }
        }
    }
}

fn prediction(record: &Record) -> Prediction {
    let kernel =
        convoy_catalogue::load::<KernelPreset>("6.18", &[]).expect("a shipped preset").value;
    let machines = Machines { kernel, machine: None, sets: Vec::new() };
    let question = Question {
        cpus: CPUS.to_vec(),
        threads: Vec::new(),
        policies: vec![Choice::new(SLEEP)],
        split: None,
        edits: false,
        rounds: 2,
        effort: Effort::FULL,
    };
    predict(record, &machines, &question).expect("a record with a lock")
}

const PRIVATE: Law = Law {
    kind: Kind::Mutex,
    act: "lock",
    locks: THREADS,
    hold_us: 5.0,
    think_us: 20.0,
    sleep_us: 0.0,
};

#[test]
fn private_locks_scale_with_and_without_other_programs() {
    PRIVATE.holds(|_| {});
}

#[test]
fn readers_scale_with_and_without_other_programs() {
    Law { kind: Kind::Rwlock, act: "read", locks: 1, hold_us: 20.0, ..PRIVATE }.holds(|_| {});
}

#[test]
fn sleepers_do_as_much_on_any_number_of_cpus() {
    Law { sleep_us: 2000.0, ..PRIVATE }.holds(|_| {});
}

#[test]
fn a_place_that_was_seldom_timed_and_lost_its_cpu_by_chance_does_not_sleep() {
    // A thousandth of the acquisitions, ten of which were timed; three lost the CPU for 190 ms.
    PRIVATE.holds(|record| {
        if record.program.disturbance.others_s <= 0.0 {
            return;
        }
        let locks = &mut record.processes[0].locks;
        let mut seldom = locks[0].clone();
        let site = &mut seldom.sites[0];
        site.count /= 1000;
        (site.hold_on, site.hold_off) = (times(10, 1.0), Times::default());
        (site.think_on, site.think_off) = (times(7, 34.0), times(3, 190_000.0));
        seldom.name = "seldom".to_owned();
        locks.push(seldom);
    });
}

/// Without a simulation, the intervals still contain the throughput that follows from arithmetic.
#[test]
fn bounds_contain_the_law_and_name_the_station_that_sets_it() {
    for law in [PRIVATE, Law { sleep_us: 400.0, ..PRIVATE }] {
        for others in [0.0, 1.0] {
            let mut record = law.record(others);
            // No replay: the record has the contended acquisitions alone.
            record.program.only_contended = true;
            let found = prediction(&record);
            assert_eq!(found.reason, Some(Reason::OnlyContended));
            for row in found.rows {
                let known = 100.0 * (law.rate(f64::from(row.cpus)) / law.rate(RECORDED) - 1.0);
                assert!(row.low_percent <= known + 1.0, "{others}: {known}: {row:#?}");
                assert!(known <= row.high_percent + 1.0, "{others}: {known}: {row:#?}");
                let (cpus, work) = (f64::from(row.cpus), law.hold_us + law.think_us);
                let threads_needed = THREADS as f64 / (work + law.sleep_us) * work;
                let limit = if cpus < threads_needed { Station::Cpus } else { Station::Threads };
                assert!((cpus - threads_needed).abs() < 1.0 || row.limit == limit, "{row:#?}");
            }
        }
    }
}

/// Recorded on two CPUs of a machine that is not a server. 64 CPUs are predicted for an existing
/// server.
#[test]
fn a_lock_is_held_for_all_of_its_holds_and_a_moved_sleep_stays_in_its_thread() {
    // Eight threads that hold one lock for a sleep of 2 ms, and do nothing else.
    let count = (SECONDS / 2e-3) as u64;
    let wait = times(count, 14e3);
    let asleep = Site {
        place: "save (laws.c:9)".to_owned(),
        act: "lock".to_owned(),
        count,
        contended: count,
        threads: 8,
        regulars: 8,
        wait,
        hold_off: times(count, 2e3),
        think_on: times(count, 1.0),
        ..Site::default()
    };
    let waiters = Waiters { seconds: SECONDS, most: 7, ..Waiters::default() };
    let lock = Lock {
        name: "m".to_owned(),
        waiters,
        instances: 1,
        sites: vec![asleep],
        ..Lock::default()
    };
    let scheduling =
        Scheduling { sleeps: 2 * count, asleep_s: 8.0 * SECONDS, ..Scheduling::default() };
    let process = Process {
        seconds: SECONDS,
        cpu_s: 0.02,
        threads: 9,
        sees_switches: true,
        scheduling: Some(scheduling),
        locks: vec![lock],
        ..Process::default()
    };
    let program = Program { cpus: RECORDED as u32, wall_s: SECONDS, ..Program::default() };
    let record = Record { program, processes: vec![process], ..Record::default() };
    let found = prediction(&record);
    for row in &found.rows {
        assert!(row.high_percent < 30.0, "no number of CPUs shortens a sleep: {row:?}");
    }
}

#[test]
fn each_row_names_the_machine_that_it_simulates() {
    let found = prediction(&PRIVATE.record(0.0));
    for row in found.rows.iter().filter(|row| f64::from(row.cpus) != RECORDED) {
        let begin = format!("{} CPU", row.cpus);
        assert!(row.machine.starts_with(&begin) && row.machine.contains(" of "), "{row:#?}");
    }
}

/// Microseconds of waiting for a kernel lock in a run of seconds limit nothing, and the reported
/// lock is the lock that threads wait for.
#[test]
fn a_lock_that_is_hardly_waited_for_is_not_the_limit() {
    fn kernel(name: &str, kernel: &str, wait_us: f64) -> Lock {
        let site = Site { count: 9000, contended: 10, wait: times(10, wait_us), ..Site::default() };
        Lock {
            name: name.to_owned(),
            kind: Kind::Spinlock,
            kernel: kernel.to_owned(),
            instances: 1,
            sites: vec![site],
            ..Lock::default()
        }
    }
    let mut record = Law { locks: 1, think_us: 5.0, ..PRIVATE }.record(0.0);
    let process = &mut record.processes[0];
    let own = &mut process.locks[0].sites[0];
    (own.contended, own.wait) = (10_000, times(10_000, 500.0));
    process.kernel_locks.push(kernel("lock of fallocate", "spinlock", 1.0));
    let found = prediction(&record);
    assert_eq!(found.beyond, None);
    let Limit::Lock { lock, .. } = found.limit else { panic!("{:?}", found.limit) };
    assert_eq!(lock.name, "own");
}

/// Five threads wait for a lock of the program's own, whose owner sleeps. It always has an owner,
/// so more CPUs do not help. If the waits are as short as wakeups, it need not have one.
#[test]
fn a_lock_with_waiters_all_the_time_limits_although_only_its_waits_were_recorded() {
    fn most_percent(waits: u64, ready_s: Option<f64>) -> f64 {
        let each_us = 4.0 * 1e6 * SECONDS / waits as f64;
        let (place, act) = ("own (laws.c:9)".to_owned(), "wait".to_owned());
        let wait = times(waits, each_us);
        let site = Site { place, act, count: waits, threads: 5, wait, ..Site::default() };
        let lock = Lock {
            name: "own".to_owned(),
            kind: Kind::Futex,
            instances: 1,
            given_by_owner: waits,
            waiters: Waiters { most: 4, seconds: SECONDS, ..Waiters::default() },
            sites: vec![site],
            ..Lock::default()
        };
        let (cpu_s, futexes) = (0.05, vec![lock]);
        let process = Process { seconds: SECONDS, threads: 5, ready_s, ..Process::default() };
        let process = Process { cpu_s, futexes, sees_switches: true, ..process };
        let program = Program { cpus: 2, wall_s: SECONDS, ..Program::default() };
        let record = Record { program, processes: vec![process], ..Record::default() };
        let found = prediction(&record);
        let row = found.rows.iter().find(|row| row.cpus == 8).expect("8 CPUs are asked for");
        row.high_percent
    }
    assert!(most_percent(1200, Some(0.1)) < 15.0, "{}", most_percent(1200, Some(0.1)));
    assert!(most_percent(100_000, Some(0.1)) > 100.0, "the waits are those of wakeups");
    assert!(most_percent(1200, None) > 100.0, "the owner may have waited for a CPU");
}

/// Sixteen threads that never waited for a semaphore show how many units they held, not how many
/// there are.
#[test]
fn a_semaphore_that_no_thread_waited_for_is_simulated_for_the_recorded_cpus_alone() {
    let mut record = Law { kind: Kind::Semaphore, locks: 1, ..PRIVATE }.record(0.0);
    let semaphore = &mut record.processes[0].locks[0];
    semaphore.given_by_owner = semaphore.count();
    let found = prediction(&record);
    assert_eq!(found.rows.len(), CPUS.len());
    for row in &found.rows {
        let is_known = f64::from(row.cpus) <= RECORDED;
        assert_eq!(row.simulated.is_some(), is_known, "{row:#?}");
        assert_eq!(matches!(row.reason, Some(Reason::Units { .. })), !is_known, "{row:#?}");
        let known = 100.0 * (PRIVATE.rate(f64::from(row.cpus)) / PRIVATE.rate(RECORDED) - 1.0);
        assert!(row.low_percent < known + 1.0 && known < row.high_percent + 1.0, "{row:#?}");
    }
}

/// Beside other programs, a twelfth of the threads' time that is not accounted for may be sleep, or
/// the time before threads began: the interval covers both.
#[test]
fn a_little_time_that_is_not_accounted_for_widens_the_interval() {
    let mut record = PRIVATE.record(1.0);
    let process = &mut record.processes[0];
    let seen = process.scheduling.as_mut().expect("kernel events");
    seen.preempted_s -= SECONDS * THREADS as f64 / 12.0;
    let found = prediction(&record);
    assert_eq!(found.reason, None, "{found:#?}");
    for row in found.rows {
        let known = 100.0 * (PRIVATE.rate(f64::from(row.cpus)) / PRIVATE.rate(RECORDED) - 1.0);
        assert!(row.low_percent <= known && known <= row.high_percent, "{known}: {row:#?}");
    }
}
