//! Simulated histories to search in, and the bound on the number of runs. The example and the tests
//! share it.

use super::noise::{Machine, Noise, Random};
use convoy_stats::bisect::{Config, History, Layout, Outcome, Search, Step};

/// Level of a good commit; effects and noise are given as parts of it.
pub(crate) const LEVEL: f64 = 100.0;

/// Why a search buys pairs of runs.
const UNEXPECTED: &str = "the runs differ from the prediction: compare the culprit with its parent";

/// How the level changes from the good end to the bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At one commit, the culprit.
    Step,
    /// Nowhere.
    Nothing,
    /// By equal parts at every commit.
    Ramp,
}

/// One kind of history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) commits: usize,
    /// Effect and noise as parts of the level.
    pub(crate) effect: f64,
    pub(crate) cv: f64,
    pub(crate) noise: Noise,
    /// Standard deviation of the shift of a build, in units of a run's.
    pub(crate) layout: f64,
    /// How much the level rises over 100 runs, as a part of the level.
    pub(crate) drift: f64,
    /// Part of the commits that cannot be built.
    pub(crate) broken: f64,
    /// With merges.
    pub(crate) merges: bool,
    /// The search's assumption on the shifts of builds.
    pub(crate) assumed: Layout,
    /// How the level changes over the history.
    pub(crate) kind: Kind,
    pub(crate) max_runs: u32,
}

impl Scenario {
    pub(crate) fn new(effect: f64, cv: f64, noise: Noise) -> Self {
        Self {
            commits: 1000,
            effect,
            cv,
            noise,
            layout: 0.0,
            drift: 0.0,
            broken: 0.0,
            merges: false,
            assumed: Layout::PerBuild,
            kind: Kind::Step,
            max_runs: 20_000,
        }
    }

    pub(crate) fn d(&self) -> f64 {
        self.effect / self.cv
    }
}

/// What became of one search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) runs: u32,
    pub(crate) builds: u32,
    /// One commit was named.
    pub(crate) named: bool,
    /// The commit named is the culprit, or the set holds it.
    pub(crate) right: bool,
    pub(crate) set: usize,
    /// Runs of pairs were bought, as the noise was like none that is considered.
    pub(crate) pairs: bool,
}

/// Searches one history.
pub(crate) fn trial(scenario: &Scenario, seed: u64) -> Trial {
    let mut random = Random::new(seed);
    let history = history(scenario, &mut random);
    let culprit = history.candidates()[random.below(history.candidates().len())];
    let reach: Vec<bool> = bad_nodes(scenario, &history, culprit, seed);
    let ends = [history.good(), history.bad()];
    let history_nodes = history.nodes() as f64;
    let broken: Vec<bool> = (0..history.nodes())
        .map(|node| random.uniform() < scenario.broken && !ends.contains(&node))
        .collect();
    let sd = scenario.cv * LEVEL;
    let config = Config {
        build_cost: 0.2,
        max_runs: Some(scenario.max_runs),
        layout: scenario.assumed,
        ..Config::default()
    };
    let mut machine = Machine::new(scenario.noise, &mut random);
    let mut search = Search::new(history, config).expect("settings have a meaning");
    let mut shifts: Vec<f64> = Vec::new();
    let mut pairs = false;
    loop {
        match search.next_step() {
            Step::Measure(wish) => {
                pairs |= wish.why == UNEXPECTED;
                if broken[wish.node] {
                    search.skip(wish.node).expect("the node exists");
                    continue;
                }
                let build = wish.build.unwrap_or(shifts.len() as u64);
                if wish.build.is_none() {
                    shifts.push(scenario.layout * random.normal());
                }
                let part = match scenario.kind {
                    Kind::Step => f64::from(u8::from(reach[wish.node])),
                    Kind::Nothing => 0.0,
                    Kind::Ramp => wish.node as f64 / history_nodes,
                };
                for _ in 0..wish.runs {
                    let drift = scenario.drift * f64::from(search.runs()) / 100.0;
                    let level = LEVEL * (1.0 + scenario.effect * part + drift);
                    let shift = sd * shifts[build as usize];
                    let value = machine.run(level + shift, sd, &mut random);
                    search.observe(wish.node, build, Outcome::Value(value)).expect("finite");
                }
            }
            Step::Done(answer) | Step::GaveUp(answer) => {
                let named = answer.culprit.is_some();
                let in_set = answer.credible_set.iter().any(|(node, _)| *node == culprit);
                return Trial {
                    runs: search.runs(),
                    builds: search.builds(),
                    named,
                    right: if named { answer.culprit == Some(culprit) } else { in_set },
                    set: answer.credible_set.len(),
                    pairs,
                };
            }
        }
    }
}

/// The parents of a history with merges: side branches of one to eight commits that leave the main
/// line up to 20 commits before they return to it.
fn merges(scenario: &Scenario, random: &mut Random) -> Vec<Vec<usize>> {
    let mut parents: Vec<Vec<usize>> = vec![Vec::new()];
    let mut line = vec![0];
    while parents.len() < scenario.commits + 1 {
        let tip = line[line.len() - 1];
        if random.uniform() < 0.15 && parents.len() + 10 < scenario.commits {
            let back = random.below(line.len().min(20));
            let mut side = line[line.len() - 1 - back];
            for _ in 0..=random.below(8) {
                parents.push(vec![side]);
                side = parents.len() - 1;
            }
            parents.push(vec![tip, side]);
        } else {
            parents.push(vec![tip]);
        }
        line.push(parents.len() - 1);
    }
    parents
}

fn history(scenario: &Scenario, random: &mut Random) -> History {
    if scenario.merges {
        let parents = merges(scenario, random);
        History::dag(&parents, 0, parents.len() - 1).expect("in order")
    } else {
        History::linear(scenario.commits + 1).expect("long enough")
    }
}

/// Which commits contain the culprit, found without the library.
fn bad_nodes(scenario: &Scenario, history: &History, culprit: usize, seed: u64) -> Vec<bool> {
    if !scenario.merges {
        return (0..history.nodes()).map(|node| node >= culprit).collect();
    }
    let parents = merges(scenario, &mut Random::new(seed));
    let mut bad = vec![false; parents.len()];
    for node in 0..parents.len() {
        bad[node] = node == culprit || parents[node].iter().any(|parent| bad[*parent]);
    }
    bad
}

/// Information of one run about good or bad, in bits, at known levels `d` standard deviations apart
/// with Gaussian noise and equal odds: `1 - E log2(1 + exp(-L))`, `L ~ N(d^2/2, d^2)`.
pub(crate) fn capacity(d: f64) -> f64 {
    let steps = 4000;
    let width = 16.0 / f64::from(steps);
    let lost: f64 = (0..steps)
        .map(|i| {
            let z = -8.0 + (f64::from(i) + 0.5) * width;
            let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
            let l = d * d / 2.0 + d * z;
            let log = if l > 0.0 { (-l).exp().ln_1p() } else { l.exp().ln_1p() - l };
            density * width * log / std::f64::consts::LN_2
        })
        .sum();
    1.0 - lost
}

/// Fano's bound on the mean number of runs of any search that is right with probability `1 - eps`.
pub(crate) fn bound(d: f64, commits: usize, eps: f64) -> f64 {
    let n = commits as f64;
    let doubt = -eps * eps.log2() - (1.0 - eps) * (1.0 - eps).log2();
    (n.log2() - doubt - eps * (n - 1.0).log2()) / capacity(d)
}

/// Averages over many trials.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) runs: f64,
    pub(crate) runs_p95: u32,
    pub(crate) builds: f64,
    /// Part of the trials that were right, and its 95 % interval (Wilson).
    pub(crate) right: f64,
    pub(crate) right_ci: [f64; 2],
    /// Part of the trials that named one commit.
    pub(crate) named: f64,
    /// Of those, the part that named the culprit.
    pub(crate) named_right: f64,
    pub(crate) set: f64,
    /// Part of the trials that bought pairs.
    pub(crate) pairs: f64,
}

/// The 95 % interval of a probability of which `n` trials showed `p` (Wilson 1927).
fn wilson(p: f64, n: f64) -> [f64; 2] {
    let square = 1.96 * 1.96 / n;
    let half = (p * (1.0 - p) / n + square / n / 4.0).sqrt() * 1.96;
    [-half, half].map(|half| (p + square / 2.0 + half) / (1.0 + square))
}

/// Runs `histories` trials on `threads` threads. The result does not depend on their number.
pub(crate) fn summarise(scenario: &Scenario, histories: u64, seed: u64, threads: usize) -> Summary {
    let next = std::sync::atomic::AtomicU64::new(0);
    let mut trials: Vec<(u64, Trial)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if i >= histories {
                    return mine;
                }
                mine.push((i, trial(scenario, seed.wrapping_mul(1_000_003).wrapping_add(i))));
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("a search panicked")).collect()
    });
    trials.sort_by_key(|(i, _)| *i);
    let n = trials.len() as f64;
    let mean =
        |value: &dyn Fn(&Trial) -> f64| trials.iter().map(|(_, t)| value(t)).sum::<f64>() / n;
    let mut runs: Vec<u32> = trials.iter().map(|(_, t)| t.runs).collect();
    runs.sort_unstable();
    let right = mean(&|t| f64::from(t.right));
    let named = mean(&|t| f64::from(t.named));
    Summary {
        runs: mean(&|t| f64::from(t.runs)),
        runs_p95: runs[(trials.len() * 95 / 100).min(trials.len() - 1)],
        builds: mean(&|t| f64::from(t.builds)),
        right,
        right_ci: wilson(right, n),
        named,
        named_right: mean(&|t| f64::from(t.named && t.right)) / named.max(f64::MIN_POSITIVE),
        set: mean(&|t| t.set as f64),
        pairs: mean(&|t| f64::from(t.pairs)),
    }
}
