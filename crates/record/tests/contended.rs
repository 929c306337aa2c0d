//! A record of contended acquisitions only. If threads wait very often, it is a sample, which must
//! agree with the program's own measurement.

#![cfg(target_arch = "x86_64")]

#[path = "common/place.rs"]
mod place;
#[path = "common/record.rs"]
mod record;

use convoy_record::CONTENDED;
use place::Place;
use record::record;

#[test]
fn a_sample_of_waits_represents_all_of_them() {
    let place = Place::new();
    let program = place.compile("seldom.c", &[]);
    let (output, processes) = record(&place, &[&program], &[(CONTENDED, "1")]);
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
