//! The first sentence of the account of constructed records.

use convoy_record::{Account, Kind, Lock, Process, Program, Record, Site, Times};

/// Returns a condition with this name, this number of threads that wait for it, and these waits:
/// seconds, and how often.
fn condition(name: &str, threads: u64, waits: &[(f64, u64)]) -> Lock {
    let total_s = waits.iter().map(|(wait_s, count)| wait_s * *count as f64).sum();
    let wait = Times {
        count: waits.iter().map(|(_, count)| count).sum(),
        total_s,
        max_s: waits.iter().fold(0.0, |most, (wait_s, _)| wait_s.max(most)),
        buckets: waits.iter().map(|(wait_s, count)| (wait_s * 1e9 * 0.8, *count)).collect(),
    };
    let place = format!("{name}.c:1");
    let site = Site { place, count: wait.count, threads, wait, ..Site::default() };
    let name = name.to_owned();
    Lock { name, kind: Kind::Condition, instances: 1, sites: vec![site], ..Lock::default() }
}

fn verdict(locks: Vec<Lock>) -> String {
    let program = Program { wall_s: 5.0, cpus: 2, ..Program::default() };
    let processes = vec![Process { locks, threads: 17, ..Process::default() }];
    Account::new(&Record { program, processes, ..Record::default() }).verdict
}

#[test]
fn what_threads_wait_for_all_the_time_goes_before_the_wait_for_their_end() {
    let main = condition("all_done", 17, &[(4.9, 1), (0.03, 16)]);
    let writers = condition("write_group", 16, &[(0.001, 5200)]);
    let said = verdict(vec![main.clone(), writers]);
    assert!(said.contains("for work or for each other, 5.20 s on `write_group`"), "{said}");
    // A lock that costs a hundredth of the run, and a hundredth of that wait.
    let little = Lock { kind: Kind::Mutex, ..condition("gate", 16, &[(0.001, 52)]) };
    let writers = condition("write_group", 16, &[(0.001, 5200)]);
    let said = verdict(vec![little.clone(), writers]);
    assert!(said.contains("for work or for each other"), "{said}");
    assert!(verdict(vec![little]).starts_with("100 % of the time that threads waited for locks"));
    // A wait for the end alone is not mentioned. Idle threads are named.
    assert!(verdict(vec![main]).starts_with("Locks cost little"));
    let said = verdict(vec![condition("no_work", 8, &[(4.9, 8)])]);
    assert!(said.contains("on `no_work` in no_work.c:1, 8 times"), "{said}");
}

#[test]
fn a_semaphore_that_is_never_posted_by_its_takers_is_no_lock() {
    fn of(held: u64) -> Lock {
        let hold_on = Times { count: held, ..Times::default() };
        let site = Site { hold_on, ..condition("work", 4, &[]).sites.remove(0) };
        Lock { kind: Kind::Semaphore, sites: vec![site], ..Lock::default() }
    }
    assert!(!of(0).is_lock());
    assert!(of(4).is_lock());
}

#[test]
fn a_condition_that_one_thread_waits_for_alone_is_no_lock() {
    let given = |threads| Lock { given_by_owner: 4, ..condition("tick", threads, &[(1.0, 4)]) };
    assert!(!given(1).is_lock());
    assert!(given(2).is_lock());
}

#[test]
fn waits_of_a_fiftieth_of_the_busy_time_are_no_problem() {
    fn of(wait_s: f64) -> String {
        let lock = Lock { kind: Kind::Mutex, ..condition("gate", 4, &[(wait_s, 1)]) };
        let program = Program { wall_s: 0.2, cpus: 2, ..Program::default() };
        let process = Process { locks: vec![lock], threads: 4, seconds: 0.2, ..Process::default() };
        Account::new(&Record { program, processes: vec![process], ..Record::default() }).verdict
    }
    // More than a hundredth of the run, but of four threads.
    assert!(of(3e-3).starts_with("Locks cost little"), "{}", of(3e-3));
    assert!(of(30e-3).contains("for `gate`"), "{}", of(30e-3));
}
