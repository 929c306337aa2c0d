//! What `convoy lab check all` explores of each lock, in how many executions and seconds: the table
//! of `results/check.md`. Arguments select locks; `--budget N` sets another budget.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program that prints")]

use convoy_checker::{Budget, Memory, Row, select};
use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Seconds that this thread has been on a CPU.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstat");
    let nanoseconds: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    nanoseconds / 1e9
}

/// Returns preemptions and stale steps as numbers of which a smaller one is a shorter search.
fn rank([preemptions, stale]: [Option<u32>; 2]) -> (u32, u32) {
    match stale {
        Some(0) => (0, 0),
        stale => (stale.unwrap_or(u32::MAX), preemptions.unwrap_or(u32::MAX)),
    }
}

/// Sums over the scenarios of a lock.
#[derive(Clone, Default)]
struct Sums {
    name: &'static str,
    scenarios: usize,
    whole: usize,
    explored: u64,
    weak_whole: usize,
    weak_explored: u64,
    /// The least that was explored under weaker memory of a scenario: preemptions, stale steps.
    least: Option<[Option<u32>; 2]>,
    violated: usize,
    /// CPU time, sequentially consistent and then under weaker memory.
    seconds: [f64; 2],
}

impl Sums {
    fn add(&mut self, row: &Row, seconds: [f64; 2]) {
        self.name = row.name;
        self.scenarios += 1;
        self.whole += usize::from(row.exhaustive);
        self.explored += row.explored;
        self.violated += usize::from(row.violated.is_some());
        self.seconds = [0, 1].map(|part| self.seconds[part] + seconds[part]);
        let Some(weak) = row.weak else { return };
        self.weak_whole += usize::from(weak.exhaustive);
        self.weak_explored += weak.explored;
        if weak.exhaustive || row.violated.is_some() {
            return;
        }
        let reach = [weak.preemptions, weak.stale];
        if self.least.is_none_or(|least| rank(reach) < rank(least)) {
            self.least = Some(reach);
        }
    }

    fn print(&self) {
        let least = match self.least {
            None => "all".to_owned(),
            Some([_, Some(0)]) => "-".to_owned(),
            Some(bounds) => {
                let [preemptions, stale] =
                    bounds.map(|bound| bound.map_or("any".to_owned(), |bound| bound.to_string()));
                format!("{preemptions}, {stale}")
            }
        };
        let Self { name, scenarios, whole, explored, weak_whole, weak_explored, .. } = self;
        let broken = if self.violated > 0 { format!("{}", self.violated) } else { String::new() };
        println!(
            "| {name} | {scenarios} | {broken} | {whole} | {explored} | {:.1} | {weak_whole} \
             | {least} | {weak_explored} | {:.1} |",
            self.seconds[0], self.seconds[1]
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (mut words, mut executions) = (Vec::new(), None);
    while let Some(argument) = arguments.next() {
        if argument == "--budget" {
            executions = arguments.next().and_then(|count| count.parse().ok());
        } else {
            words.push(argument);
        }
    }
    if words.is_empty() {
        words.push("all".to_owned());
    }
    let subjects = select(&words).expect("names of `convoy lab check --list`");
    let subjects: Vec<_> = subjects.into_iter().map(|it| it.under(Memory::C11)).collect();
    let mut cases = Vec::new();
    for (lock, &subject) in subjects.iter().enumerate() {
        if subject.same_among(&subjects).is_some() {
            continue;
        }
        let budget = match executions {
            Some(executions) => Budget { executions, few_preemptions: 0, ..subject.budget() },
            None => subject.budget(),
        };
        cases.extend((0..subject.count()).map(|place| (lock, subject, place, budget)));
    }
    let (next, locks) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<usize, Sums>::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        // Relaxed: it only hands out numbers.
        while let Some(&(lock, subject, place, budget)) =
            cases.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let before = cpu_seconds();
            let row = subject.under(Memory::Sc).check_one(place, budget);
            let mut row = row.expect("a scenario of the subject");
            let between = cpu_seconds();
            subject.check_weak(place, budget, &mut row);
            let seconds = [between - before, cpu_seconds() - between];
            locks.lock().expect("no panic").entry(lock).or_default().add(&row, seconds);
            eprintln!("{}/{}: {seconds:.1?} s", row.name, row.scenario);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    println!(
        "| lock | scenarios | violated | exhaustive, sc | executions, sc | CPU s, sc \
         | exhaustive, c11 | least, c11 | executions, c11 | CPU s, c11 |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut locks = locks.into_inner().expect("no panic");
    for (lock, subject) in subjects.iter().enumerate() {
        // Searched with the lock that has the same executions.
        let twin = locks
            .values()
            .find(|sums| subject.same_among(&subjects).is_some_and(|twin| twin.name == sums.name));
        if let Some(sums) = twin.cloned() {
            locks.insert(lock, Sums { name: subject.name, seconds: [0.0; 2], ..sums });
        }
    }
    locks.values().for_each(Sums::print);
    let sum = locks.values().fold(Sums::default(), |sum, lock| Sums {
        name: "all",
        scenarios: sum.scenarios + lock.scenarios,
        whole: sum.whole + lock.whole,
        explored: sum.explored + lock.explored,
        weak_whole: sum.weak_whole + lock.weak_whole,
        weak_explored: sum.weak_explored + lock.weak_explored,
        least: Some([None, Some(0)]),
        violated: sum.violated + lock.violated,
        seconds: [0, 1].map(|part| sum.seconds[part] + lock.seconds[part]),
    });
    sum.print();
}
