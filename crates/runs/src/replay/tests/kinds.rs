//! Locks of other kinds than mutexes, barriers, and other programs.

use super::*;

/// Returns a replay of threads on `cpus` that work for 20 us and then hold one lock of `kind` for
/// 20 us; `writes` percent of them write.
fn sharing(kind: Kind, threads: u32, writes: u64, cpus: usize) -> Replay {
    let mut replay = replay(Policy::Adaptive, threads, 1);
    let behaviour = Arc::make_mut(&mut replay.behaviour);
    let read = Section { mode: Mode::Read, ..behaviour.sections[0].clone() };
    let write = Section { mode: Mode::Write, count: writes, ..read.clone() };
    behaviour.sections = vec![Section { count: 100 - writes, ..read }];
    if writes > 0 {
        behaviour.sections.push(write);
    }
    (behaviour.kinds, behaviour.rate) = (vec![kind], 100e3);
    replay.machine = replay.machine.with_cpus(cpus);
    replay
}

const READERS_FIRST: Kind = Kind::RwLock { prefers_writers: false };
const WRITERS_FIRST: Kind = Kind::RwLock { prefers_writers: true };

#[test]
fn readers_of_a_lock_do_not_exclude_each_other() {
    fn rate(kind: Kind, policy: Policy) -> f64 {
        let replay = Replay { policy, looks: Some(0), ..sharing(kind, 4, 0, 4) };
        replay.run().expect("it ends").result.acquisitions_per_s()
    }
    // Four CPUs, 40 us per pass, and the scatter of 4000 draws: 2 %.
    let shared = rate(READERS_FIRST, Policy::Adaptive);
    assert!((90e3..105e3).contains(&shared), "{shared}");
    let fair = rate(READERS_FIRST, Policy::Quota);
    assert!((90e3..105e3).contains(&fair), "{fair}");
    let alone = rate(Kind::Mutex, Policy::Adaptive);
    assert!(alone < 51e3, "{alone}");
}

/// Readers that always overlap keep a writer out, unless the lock prefers writers or the policy of
/// the replay has one queue for both.
#[test]
fn a_writer_starves_where_readers_are_preferred_and_only_there() {
    fn run(kind: Kind, policy: Policy) -> Tally {
        let mut replay = Replay { policy, looks: Some(0), ..sharing(kind, 8, 1, 8) };
        let behaviour = Arc::make_mut(&mut replay.behaviour);
        // One of eight threads writes, and does little else.
        behaviour.threads = 8;
        behaviour.sections[0].threads = 8;
        behaviour.sections[0].think = Span { work: spread(2e3), ..Span::default() };
        behaviour.sections[1] =
            Section { count: 10_000, threads: 1, ..behaviour.sections[1].clone() };
        replay.run().expect("it ends").tally
    }
    let tally = run(READERS_FIRST, Policy::Adaptive);
    let (read, write) = (&tally.places[0], &tally.places[1]);
    assert!(write.longest_ns > 10_000_000, "{} ns", write.longest_ns);
    assert!(read.longest_ns < write.longest_ns && read.acquisitions > 1000);
    assert_eq!(tally.longest_ns(), write.longest_ns);
    assert_eq!(tally.classes.len(), 2);
    for (kind, policy) in [(WRITERS_FIRST, Policy::Adaptive), (READERS_FIRST, Policy::Quota)] {
        let tally = run(kind, policy);
        let write = &tally.places[1];
        assert!(write.acquisitions > 10, "{kind:?} {policy}: {}", write.acquisitions);
        assert!(write.longest_ns < 10_000_000, "{kind:?} {policy}: {} ns", write.longest_ns);
    }
}

#[test]
fn a_semaphore_admits_as_many_as_it_has_units() {
    fn rate(units: u32) -> f64 {
        let kind = Kind::Semaphore { units };
        let mut replay = Replay { looks: Some(0), ..sharing(kind, 16, 0, 8) };
        Arc::make_mut(&mut replay.behaviour).sections[0].mode = Mode::Exclusive;
        replay.run().expect("it ends").result.acquisitions_per_s()
    }
    // 20 us inside, one and three at a time, less the cost of wakeups.
    let (one, three) = (rate(1), rate(3));
    assert!((25e3..50e3).contains(&one), "{one}");
    assert!(three > 2.0 * one && three < 150e3, "{three} beside {one}");
}

#[test]
fn a_spinlock_is_held_and_waited_for_awake() {
    let mut replay = sharing(Kind::Spinlock, 4, 0, 4);
    Arc::make_mut(&mut replay.behaviour).sections[0].mode = Mode::Exclusive;
    let result = replay.run().expect("it ends").result;
    let rate = result.acquisitions_per_s();
    assert!((40e3..50.5e3).contains(&rate), "{result:?}");
    assert!(result.cpus_used > 3.8, "{}", result.cpus_used);
}

#[test]
fn a_semaphore_of_a_script_is_freed_by_other_threads() {
    let put = [rest(40.0), unlock(0)];
    let take = [lock(0), rest(10.0)];
    let mut replay = scripted(&[(1, &put), (1, &take)], &[], 1);
    Arc::make_mut(&mut replay.behaviour).kinds = vec![Kind::Semaphore { units: 0 }];
    let rate = replay.run().expect("it ends").result.acquisitions_per_s();
    // One every 40 us, plus the cost of the wakeup for the waker.
    assert!((15e3..25.1e3).contains(&rate), "{rate}");
}

#[test]
fn other_programs_take_what_they_took() {
    fn run(others_cpus: f64) -> crate::lock_loop::LoopResult {
        let mut replay = Replay { others_cpus, ..replay(Policy::Adaptive, 16, 1) };
        let behaviour = Arc::make_mut(&mut replay.behaviour);
        behaviour.private.insert(0);
        (behaviour.rate, behaviour.cpu_ns) = (20e3, 100e3);
        behaviour.sections[0].think.work = spread(80e3);
        replay.machine = replay.machine.with_cpus(2);
        replay.run().expect("it ends").result
    }
    let (alone, beside) = (run(0.0), run(1.0));
    let ratio = beside.acquisitions_per_s() / alone.acquisitions_per_s();
    // Their weight is 88761 of 96953, next to eight ordinary tasks.
    assert!((0.47..0.6).contains(&ratio), "{ratio}");
    let others = beside.others_cpus.expect("they ran");
    assert!((0.85..1.05).contains(&others), "{others}");
    assert!((0.94..1.16).contains(&beside.cpus_used), "{}", beside.cpus_used);
    assert_eq!(alone.others_cpus, None);
}
