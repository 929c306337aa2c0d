//! A record of contended acquisitions only. If threads wait very often, it is a sample, which must
//! agree with the program's own measurement.

#![cfg(target_arch = "x86_64")]

use convoy_record::{CONTENDED, DIRECTORY, launch, raw};
use std::path::Path;
use std::process::Command;

#[test]
fn a_sample_of_waits_represents_all_of_them() {
    let place = format!("contended-{}", std::process::id());
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(place);
    let files = place.join("files");
    std::fs::create_dir_all(&files).expect("a directory for the test");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/seldom.c");
    let program = place.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
    let object = launch::object().expect("the object can be written");
    let mut command = launch::command(&[program.into()], &object);
    command.env(DIRECTORY, &files).env(CONTENDED, "1");
    let output = command.output().expect("the program starts");
    let processes = raw::read(&files).expect("the files can be read");
    std::fs::remove_dir_all(&place).expect("it goes away");

    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let said: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[count, seconds] = &said[..] else { panic!("two numbers were expected: {output:?}") };
    let busy = processes[0].locks.iter().find(|lock| lock.name == "busy").expect("the lock");
    let wait = busy.all(|site| &site.wait);
    // The other threads wait for 300 ms once, which represents only itself.
    assert!(wait.max_s > 0.25, "{wait:?}");
    let near = |found: f64, right: f64| (0.75..1.25).contains(&(found / right));
    assert!(near(wait.count as f64, count), "{count} waits, recorded {}", wait.count);
    assert!(near(wait.total_s, seconds), "{seconds} s, recorded {}", wait.total_s);
    assert!(near(busy.contended() as f64, busy.count() as f64), "{:?}", busy.sites);
    // A handoff is recorded if both the release and the wait are.
    let handoffs = busy.all(|site| &site.handoff).count;
    assert!(handoffs as f64 > 0.3 * count, "{handoffs} handoffs, {count} waits");
    // The causes are weighted in the same way.
    let causes = processes[0].causes.iter().filter(|cause| cause.lock == "busy");
    let caused: f64 = causes.map(|cause| cause.wait_s).sum();
    assert!(near(caused, seconds), "{seconds} s, {caused} s by causes");
}
