//! What paths to names cost on many CPUs, kernel by kernel, and the locks that they wait for.
//!
//! One process on each CPU repeats one of three rounds: `open`, `stat` and `close` of a private
//! file in `/tmp` (`own`) or of a shared one (`same`); `open` of a new file in a private directory,
//! `unlink` and `close` (`new`). The times are virtual, so they repeat to the digit.
#![expect(clippy::print_stdout, reason = "a benchmark talks")]

use convoy_kernel::{KernelPreset, Options, Process, World};
use convoy_machine::{Event, Machine, Names, Outcome, Preset, Record, Recorder};
use convoy_sync::{LockEvent, TaskId};
use convoy_workload::api::{Kernel, Open};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Rounds of each process.
const ROUNDS: u64 = 300;
const KERNELS: [&str; 4] = ["2.6.25", "3.0", "3.7", "6.18"];
const CPUS: [usize; 3] = [1, 32, 80];
const SCENES: [&str; 3] = ["own", "same", "new"];

/// Wait time for each lock, in picoseconds.
#[derive(Default)]
struct Waits {
    names: Names,
    since: BTreeMap<TaskId, u64>,
    sums: BTreeMap<&'static str, u64>,
}

impl Recorder for Waits {
    fn record(&mut self, record: &Record) {
        match record.event {
            Event::Name { lock, bytes, name } => {
                self.names.add(lock, bytes, name);
            }
            Event::Lock { event: LockEvent::Contended, task, .. } => {
                self.since.insert(task, record.at);
            }
            Event::Lock { event: LockEvent::Acquired, lock, task } => {
                let Some(since) = self.since.remove(&task) else { return };
                let name = self.names.covering(lock).map_or("", |(_, name)| name);
                *self.sums.entry(name).or_default() += record.at.saturating_sub(since);
            }
            _ => {}
        }
    }
}

/// Virtual nanoseconds of a round, and of the waits in it, the longest first.
fn run(scene: &'static str, kernel: &str, cpus: usize) -> (f64, Vec<(&'static str, f64)>) {
    let preset = Preset::named("westmere-ex-80-2013").expect("shipped").with_cpus(cpus);
    let kernel = KernelPreset::named(kernel).expect("shipped");
    let units = [("shell_start", 400_000.0), ("list_program", 500_000.0)];
    let units = units.map(|(name, ns)| (name.to_owned(), ns)).into();
    let machine = Machine::new(&preset, 1, 4 * cpus + 100).expect("address space");
    let waits = Rc::new(RefCell::new(Waits::default()));
    machine.record(waits.clone());
    let world = World::new(&kernel, &preset, &units, Options::default()).expect("units");
    let spent = Rc::new(RefCell::new(0));
    let sum = Rc::clone(&spent);
    let inherited = Rc::clone(&waits);
    world.boot(&machine, move |k| {
        for number in 0..cpus {
            let (sum, waits) = (Rc::clone(&sum), Rc::clone(&inherited));
            let body = move |k: &mut Process| {
                let directory = format!("/tmp/d{number}");
                k.mkdir(&directory).expect("a new directory");
                let name = match scene {
                    "own" => format!("/tmp/{number}"),
                    "same" => "/tmp/0".to_owned(),
                    _ => format!("{directory}/0"),
                };
                let fd = k.open(&name, Open::CREAT).expect("room");
                k.close(fd).expect("open");
                // All have begun by then.
                k.sleep(50_000_000);
                if number == 0 {
                    waits.borrow_mut().sums.clear();
                }
                let begin = k.now();
                for _ in 0..ROUNDS {
                    let flags = if scene == "new" { Open::CREAT } else { Open::READ };
                    let fd = k.open(&name, flags).expect("the file");
                    if scene == "new" {
                        k.unlink(&name).expect("the file");
                    } else {
                        k.stat(&name).expect("the file");
                    }
                    k.close(fd).expect("open");
                }
                *sum.borrow_mut() += k.now() - begin;
                0
            };
            k.fork(body).expect("room for a process");
        }
        while k.wait().is_ok() {}
    });
    assert_eq!(machine.run(600_000_000_000), Outcome::Stopped, "no end");
    let rounds = (ROUNDS * cpus as u64) as f64;
    let each = |(name, ps): (&&'static str, &u64)| (*name, *ps as f64 / 1e3 / rounds);
    let mut waits: Vec<_> = waits.borrow().sums.iter().map(each).collect();
    waits.sort_by(|one, other| other.1.total_cmp(&one.1));
    (*spent.borrow() as f64 / rounds, waits)
}

fn main() {
    println!("a round: virtual ns, and of these waiting for the locks");
    for scene in SCENES {
        for cpus in CPUS {
            for kernel in KERNELS {
                let (round, waits) = run(scene, kernel, cpus);
                let waits = waits.iter().take(3).filter(|wait| wait.1 >= 1.0);
                let waits: Vec<String> =
                    waits.map(|(name, ns)| format!("{name} {ns:.0}")).collect();
                println!("{scene:<5}{cpus:>3} CPUs {kernel:<8}{round:>10.0}  {}", waits.join(", "));
            }
        }
    }
}
