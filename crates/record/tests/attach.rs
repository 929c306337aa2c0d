//! Recording of a running process from outside.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;

use convoy_diagnose::Account;
use convoy_os::process::Stat;
use convoy_record::attach::AttachError;
use convoy_record::outside::Outside;
use convoy_record::{Kind, Program, Record};
use place::Place;
use std::io::Write as _;
use std::process::{Command, Stdio};

#[test]
fn who_waits_for_whom_is_seen_from_outside() {
    for (name, flags) in [("dynamic", &[][..]), ("static", &["-static"])] {
        let place = Place::new();
        let child = Command::new(place.compile("held.c", flags)).stdin(Stdio::piped()).spawn();
        let mut child = child.expect("it starts");
        let (mut processes, mut unseen);
        loop {
            let mut attached = Outside::process(child.id()).expect("it is ours");
            for _ in 0..20 {
                std::thread::sleep(attached.look().expect("it runs until its input ends"));
            }
            (processes, unseen) = attached.finish();
            if processes[0].locks.iter().any(|lock| lock.waiters.most == 3) {
                break;
            }
        }
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
        let process = processes.remove(0);
        let [lock] = &process.locks[..] else { panic!("{name}: {process:#?}") };
        assert_eq!((lock.name.as_str(), lock.kind), ("held", Kind::Mutex), "{name}");
        let [site] = &lock.sites[..] else { panic!("{name}: {lock:#?}") };
        assert_eq!((site.place.as_str(), site.act.as_str()), ("wait_here (held.c:8)", "lock"));
        assert!(process.threads == 4 && site.threads == 3, "{process:#?}");
        assert!(lock.wait_s() > 2.0 * lock.waiters.seconds, "{lock:#?}");
        let wall_s = process.seconds;
        let program = Program { wall_s, ..Program::default() };
        unseen.truncate(1);
        let record = Record { program, processes: vec![process], unseen, ..Record::default() };
        let account = Account::new(&record);
        let held = &account.locks[0];
        assert!((held.wait_percent - 100.0).abs() < 1e-9, "{held:#?}");
        assert!(held.owner_off_cpu_percent > 90.0, "{held:#?}");
        assert!(record.unseen[0].contains("from outside"), "{:?}", record.unseen);
    }
}

#[test]
fn children_that_start_later_are_recorded_with_their_cpu_time() {
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", "read line; while :; do :; done & read line; kill $!"]);
    let mut shell = shell.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut outside = Outside::process(shell.id()).expect("it is ours");
    assert_eq!(outside.members().map(|(pid, _)| pid).collect::<Vec<_>>(), [shell.id()]);
    let mut input = shell.stdin.take().expect("its input");
    input.write_all(b"begin\n").expect("it reads");
    let ticks = |(pid, _): (u32, &[String])| Stat::of(pid).map_or(0, |stat| stat.cpu);
    while outside.members().map(ticks).sum::<u64>() < 20 {
        std::thread::sleep(outside.look().expect("it runs until its input ends"));
    }
    let (processes, unseen) = outside.finish();
    drop(input);
    assert!(shell.wait().is_ok());
    let [first, child] = &processes[..] else { panic!("{processes:#?}") };
    assert_eq!(first.pid, u64::from(shell.id()), "{processes:#?}");
    assert!(child.pid != first.pid && !child.command.is_empty(), "{processes:#?}");
    if !unseen.iter().any(|text| text.contains("perf_event")) {
        assert!(child.samples > 5 && first.samples < child.samples, "{processes:#?}");
    }
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    // Process IDs are at most about four million.
    let error = Outside::process(u32::MAX / 2).err().expect("no process has that ID");
    assert!(matches!(error, AttachError::None(_)), "{error}");
}
