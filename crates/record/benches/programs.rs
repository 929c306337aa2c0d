//! Overhead of recording third-party programs (packages sysbench and rocksdb-tools): their rate and
//! the CPU time of an operation, recorded and unrecorded, and between unrecorded runs, which is the
//! spread of repeats. Medians of ratios of runs that follow each other, with the interval that
//! holds the median with 95 %.
//!
//! `cargo bench -p convoy-record --bench programs -- --pairs 100`
#![expect(clippy::print_stdout, reason = "a benchmark talks")]

use convoy_record::{CONTENDED, DIRECTORY, launch};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pairs, unless others are asked for.
const PAIRS: usize = 100;
/// What a plain run is compared with.
const SIDES: [&str; 3] = ["recorded", "contended only", "plain again"];
const RECORDED: usize = 1;
const CONTENDED_ONLY: usize = 2;
/// Acquisitions of the first program, by 32 threads.
const LOCKS: f64 = 1_280_000.0;

/// A program: its name, its command, and what its output says of its rate.
type Row = (&'static str, &'static str, fn(&str) -> Option<f64>);

const ROWS: [Row; 4] = [
    (
        "sysbench mutex, 32 threads",
        "sysbench mutex --threads=32 --mutex-num=1 --mutex-locks=40000 --mutex-loops=500 run",
        |output| Some(LOCKS / after(output, "total time:")?),
    ),
    (
        "sysbench threads, 32 threads",
        "sysbench threads --threads=32 --thread-yields=200 --thread-locks=1 --time=0 \
         --events=500 run",
        |output| Some(after(output, "total number of events:")? / after(output, "total time:")?),
    ),
    (
        "db_bench readrandom, 16 threads",
        "db_bench --use_existing_db=1 --benchmarks=readrandom --cache_numshardbits=0 \
         --cache_size=1000000 --num=100000 --threads=16 --reads=12500 --db=DB",
        operations,
    ),
    (
        "db_bench readrandom, 1 thread",
        "db_bench --use_existing_db=1 --benchmarks=readrandom --cache_numshardbits=0 \
         --cache_size=1000000 --num=100000 --threads=1 --reads=100000 --db=DB",
        operations,
    ),
];

/// The number behind these words; a unit may stick to it.
fn after(output: &str, words: &str) -> Option<f64> {
    let rest = output.split_once(words)?.1.trim_start();
    let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number before `ops/sec`, of the last line that has one.
fn operations(output: &str) -> Option<f64> {
    output.rsplit_once(" ops/sec")?.0.split_whitespace().next_back()?.parse().ok()
}

/// Rate, and CPU time in seconds of one run.
struct Bench {
    object: PathBuf,
    place: PathBuf,
}

impl Bench {
    /// The shell tells the CPU time: to the millisecond, children included.
    fn run(&self, words: &str, rate: fn(&str) -> Option<f64>, side: usize) -> (f64, f64) {
        // In memory, as `convoy record` has them.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory } else { &self.place };
        let files = place.join(format!("convoy-bench-{}", std::process::id()));
        std::fs::create_dir_all(&files).expect("a directory for the files");
        let words = words.replace("DB", &self.place.join("db").display().to_string());
        let script = "TIMEFORMAT='cpu %3U %3S'; time \"$@\"";
        let mut all: Vec<OsString> = ["bash", "-c", script, "bash"].map(OsString::from).to_vec();
        if [RECORDED, CONTENDED_ONLY].contains(&side) {
            // The object is for the program, not for the shell.
            let command = launch::command(&["true".into()], &self.object);
            let preload = command.get_envs().filter_map(|(key, value)| Some((key, value?)));
            all.push("env".into());
            all.extend(preload.map(|(key, value)| [key, "=".as_ref(), value].concat_os()));
            all.push([DIRECTORY.as_ref(), "=".as_ref(), files.as_os_str()].concat_os());
            if side == CONTENDED_ONLY {
                all.push([CONTENDED.as_ref(), "=1".as_ref(), "".as_ref()].concat_os());
            }
        }
        all.extend(words.split_whitespace().map(OsString::from));
        let output = Command::new(&all[0]).args(&all[1..]).output().expect("the shell starts");
        std::fs::remove_dir_all(&files).expect("the files can go");
        let [said, errors] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let rate =
            rate(&said).unwrap_or_else(|| panic!("{words} printed no rate: {said} {errors}"));
        let times = errors.rsplit_once("cpu ").expect("the shell tells the time").1;
        let times = times.split_whitespace().map(|word| word.parse::<f64>().expect("seconds"));
        (rate, times.sum())
    }
}

/// Words in one.
trait Concat {
    fn concat_os(&self) -> OsString;
}

impl Concat for [&std::ffi::OsStr; 3] {
    fn concat_os(&self) -> OsString {
        self.iter().fold(OsString::new(), |mut all, one| {
            all.push(one);
            all
        })
    }
}

/// Median of ratios less one, and the ranks that hold it with 95 %, in percent.
fn change(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len() as f64;
    let low = ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
    let high = (ratios.len() - 1).saturating_sub(low);
    let percent = |at: usize| 100.0 * (ratios[at] - 1.0);
    format!("{:+.1} % [{:+.1} to {:+.1}]", percent(ratios.len() / 2), percent(low), percent(high))
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let asked = words.iter().position(|word| word == "--pairs").and_then(|at| words.get(at + 1));
    let pairs = asked.and_then(|count| count.parse().ok()).unwrap_or(PAIRS);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded-programs");
    std::fs::create_dir_all(&place).expect("a directory");
    let bench = Bench { object: launch::object().expect("the object can be written"), place };
    let fill = "db_bench --benchmarks=fillrandom --num=100000 --db=DB";
    println!("{pairs} pairs{:<28}{:>32}{:>32}", "", "rate", "CPU time of an operation");
    for (name, words, rate) in ROWS {
        if Command::new(words.split(' ').next().expect("a program"))
            .arg("--version")
            .output()
            .is_err()
        {
            println!("{name}: not installed, so not measured");
            continue;
        }
        if words.contains("DB") && !bench.place.join("db").exists() {
            bench.run(fill, operations, 0);
        }
        let [mut rates, mut times] = [(); 2].map(|()| SIDES.map(|_| Vec::new()));
        for pair in 0..pairs {
            // Each side goes first as often as the others.
            let mut found = [(0.0, 0.0); 1 + SIDES.len()];
            for turn in 0..found.len() {
                let side = (turn + pair) % found.len();
                found[side] = bench.run(words, rate, side);
            }
            for (at, (rate, time)) in found[1..].iter().enumerate() {
                rates[at].push(rate / found[0].0);
                times[at].push(time / found[0].1);
            }
        }
        for ((what, rates), times) in SIDES.iter().zip(rates).zip(times) {
            println!("{name:<34}{what:<16}{:>28}{:>28}", change(rates), change(times));
        }
    }
    std::fs::remove_dir_all(&bench.place).expect("it goes away");
}
