//! Programs with computable throughput, recorded and predicted: alone, and while another program
//! uses a CPU.

use crate::{code, directory, json, run};
use std::path::Path;
use std::process::{Child, Command};

const SOURCE: &str = "../record/tests/programs/laws.c";
/// Threads of each program.
const THREADS: u32 = 16;

/// A program that takes a CPU until this is dropped, in a separate session as a neighbour is.
struct Neighbour(Child);

impl Neighbour {
    fn new() -> Self {
        let mut sh = Command::new("setsid");
        // Not in a separate group: setsid(1) would fork, and the neighbour outlive this.
        sh.args(["sh", "-c", "while :; do :; done"]);
        Self(sh.spawn().expect("setsid(1)"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Predicted throughput at each number of CPUs over the recorded one, or why there is none.
fn predicted(program: &Path, mode: &str, cpus: &[u32]) -> Result<Vec<f64>, String> {
    let file = program.with_extension(format!("{mode}.json"));
    let file = file.to_str().expect("UTF-8");
    let threads = THREADS.to_string();
    let words = [program.to_str().expect("UTF-8"), mode, &threads, "1.5"];
    let output = run(&[&["record", "-o", file, "--"], &words[..]].concat());
    assert_eq!(code(&output), Some(0), "{output:?}");
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let words = ["predict", file, "--policy", "sleep", "--format", "json", "--cpus"];
    let found = json(&[&words[..], &[&list.join(",")]].concat(), 0);
    if let Some(doubt) = found["doubt"].as_str() {
        return Err(doubt.to_owned());
    }
    let rows = found["rows"].as_array().expect("rows");
    let ratio =
        |row: &serde_json::Value| 1.0 + row["change_percent"].as_f64().expect("a number") / 100.0;
    Ok(rows.iter().map(ratio).collect())
}

/// Records and predicts a program alone and with a neighbour; each record has to say what `law`
/// says of the number of CPUs, within 10 %, or be refused. Both may be only where `may_refuse`:
/// where threads wait for a lock, a record with other programs may contradict its replay.
fn obeys(mode: &str, cpus: &[u32], may_refuse: bool, law: impl Fn(f64) -> [f64; 2]) {
    let place = directory(&format!("laws-{mode}"));
    let program = place.join("laws");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-pthread", SOURCE, "-o"]).arg(&program);
    assert!(cc.status().expect("a C compiler").success());
    let here = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let mut refused = Vec::new();
    let [least, most] = law(here);
    let is_lawful = |(cpus, ratio): (&u32, &f64)| {
        let [low, high] = law(f64::from(*cpus));
        (0.9 * low / most..1.1 * high / least).contains(ratio)
    };
    for beside in [false, true] {
        let _neighbour = beside.then(Neighbour::new);
        match predicted(&program, mode, cpus) {
            Ok(found) => assert!(
                cpus.iter().zip(&found).all(is_lawful),
                "{mode} on {cpus:?} CPUs{}: {found:?} times as much",
                if beside { " beside another program" } else { "" }
            ),
            Err(doubt) => refused.push(doubt),
        }
    }
    assert!(may_refuse || refused.len() < 2, "{mode}: no answer at all: {refused:?}");
    std::fs::remove_dir_all(place).expect("it goes away");
}

const CPUS: [u32; 6] = [1, 2, 4, 8, 16, 64];

#[test]
fn independent_threads_scale_to_their_number_or_that_of_the_cpus() {
    obeys("private", &CPUS, false, |cpus| [cpus.min(f64::from(THREADS)); 2]);
}

#[test]
fn readers_scale_as_independent_threads_do() {
    obeys("readers", &CPUS, false, |cpus| [cpus.min(f64::from(THREADS)); 2]);
}

#[test]
fn threads_that_sleep_do_not_need_more_cpus() {
    obeys("sleeps", &CPUS[1..], false, |_| [1.0; 2]);
}

#[test]
fn a_lock_held_for_half_of_the_work_allows_twice_the_work_of_one() {
    // Never more than the lock allows; less by what its way from CPU to CPU takes.
    obeys("shared", &CPUS, true, |cpus| if cpus < 2.0 { [1.0; 2] } else { [0.5, 2.0] });
}
