//! Running the commands: in blocks, each side once in each block, in an order drawn from the seed.

use super::operand::Command;
use super::planned::Planned;
use super::request::{Request, Warmup};
use super::series::{Series, Side};
use crate::{Ending, Finished, MeasureError, Metric, Program, run};
use convoy_os::Disturbance;
use convoy_os::Interrupts;
use convoy_stats::{Rng, Sample};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};

/// Longest filling of the environment, bytes. Its length moves the stack and with it the cache
/// lines of a program, which can change its speed by more than a real improvement does (Mytkowicz
/// and others, ASPLOS 2009); drawn anew for each run, the effect is noise that repeats average.
const PADDING: usize = 4096;

/// Blocks after which `--warmup auto` stops with a note. In noise alone block k is within those
/// before with the chance `(k - 2) / k`: one comparison in 7000 comes so far.
const MOST_WARM_UP: usize = 10;

/// How many times the cap of runs there may be at most if runs are short.
const GO_ON: u64 = 10;

/// The smallest value that has a logarithm worth comparing.
const LEAST: f64 = 1e-150;

/// Runs that failed on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// The side.
    pub label: String,
    /// How many of its runs failed.
    pub failed: u64,
    /// How many were tried.
    pub tried: u64,
    /// How the first one ended.
    pub first: String,
}

/// A step of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stage {
    /// Runs that do not count.
    WarmUp,
    /// The runs that count begin; their power, if it is known.
    Begin(Option<Planned>),
    /// Runs that count.
    Runs,
}

/// Runs that came before and do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// How many of each side.
    pub blocks: usize,
    /// Whether they ran until they were stable, or a fixed number of times.
    pub auto: bool,
    /// Whether they became stable before the most that are tried; true if it was not asked.
    pub stable: bool,
}

impl Default for WarmedUp {
    fn default() -> Self {
        Self { blocks: 0, auto: false, stable: true }
    }
}

impl fmt::Display for WarmedUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match (self.auto, self.stable) {
            (false, _) => "",
            (true, true) => ", until stable",
            (true, false) => ", never stable",
        };
        match self.blocks {
            0 => f.write_str("without warm-up"),
            blocks => write!(f, "after {blocks} of warm-up{end}"),
        }
    }
}

/// Results of the runs.
#[derive(Debug, Default)]
pub struct Measured {
    /// The sides with the values of whole blocks: value `i` of each side ran in the same block.
    pub sides: Vec<Side>,
    /// The sides of each block, in the order they ran, by number.
    pub order: Vec<Vec<usize>>,
    /// The blocks that do not count.
    pub warm_up: WarmedUp,
    /// Whole blocks.
    pub blocks: usize,
    /// Failed runs that were left out.
    pub failures: Vec<Failures>,
    /// Why the measurement ended.
    pub stopped: String,
    /// The error that ended it early, if any; the finished blocks are kept.
    pub broken: Option<MeasureError>,
}

pub(super) struct Plan<'a> {
    request: &'a Request,
    /// The commands with the names of their sides.
    sides: Vec<(String, &'a Command)>,
    metric: Metric,
    /// Blocks at most.
    cap: u32,
    /// Whether it ends as soon as the verdict is certain.
    watched: bool,
}

/// The numbers of the sides in random order.
fn order(draw: &mut Rng, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    draw.shuffle(&mut order);
    order
}

/// Whether the last of some blocks is within what those before it showed, give or take `margin`.
fn settled(logs: &[f64], margin: f64) -> bool {
    let Some((last, before)) = logs.split_last().filter(|(_, before)| !before.is_empty()) else {
        return false;
    };
    let least = before.iter().copied().fold(f64::INFINITY, f64::min);
    let most = before.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least - margin.ln_1p()..=most + margin.ln_1p()).contains(last)
}

/// How one run went.
enum Outcome {
    Values(Vec<(Series, f64)>, Disturbance),
    Failed(String),
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        request: &'a Request,
        sides: Vec<(String, &'a Command)>,
        cap: u32,
        watched: bool,
    ) -> Result<Self, MeasureError> {
        let metric = request.metric.metric().map_err(MeasureError::request)?;
        Ok(Self { request, sides, metric, cap, watched })
    }

    /// Runs warm-up and blocks until `enough` says why there are enough, or the cap is reached.
    pub(super) fn measure(
        &self,
        interrupts: &Interrupts,
        progress: &mut dyn FnMut(usize, u32, Stage),
        enough: &mut dyn FnMut(&[Side]) -> Option<String>,
    ) -> Measured {
        let mut draw = Rng::new(self.request.seed);
        let mut measured = Measured { sides: self.named(), ..Measured::default() };
        measured.failures = self.sides.iter().map(|(label, _)| no_failure(label)).collect();
        match self.warm_up(interrupts, &mut draw, progress) {
            Ok(done) => measured.warm_up = done,
            Err(failure) => {
                measured.broken = Some(failure);
                return measured;
            }
        }
        let begin = Instant::now();
        let cap = self.cap;
        let longest = u64::from(cap) * if self.go_on().is_some() { GO_ON } else { 1 };
        for block in 0..longest {
            let is_time_over = |most: f64| begin.elapsed().as_secs_f64() > most;
            if block >= u64::from(cap) && self.go_on().is_none_or(is_time_over) {
                break;
            }
            if let Err(failure) = self.block(&mut measured, interrupts, &mut draw, block) {
                measured.stopped = format!("stopped in block {}", block + 1);
                measured.broken = Some(failure);
                return measured;
            }
            progress(measured.blocks, cap, Stage::Runs);
            if self.request.runs.is_none()
                && let Some(reason) = enough(&measured.sides)
            {
                measured.stopped = reason;
                return measured;
            }
            if self.request.max_time.is_some_and(|s| begin.elapsed().as_secs_f64() > s) {
                "the time was over".clone_into(&mut measured.stopped);
                return measured;
            }
        }
        measured.stopped = match self.request.runs {
            Some(runs) => format!("{runs} runs were asked for"),
            None => format!("the cap of {} runs was reached", cap.max(measured.blocks as u32)),
        };
        measured
    }

    /// Returns for how many seconds short runs continue past the cap, or `None` if they end there,
    /// as simulations do, which repeat the same values.
    fn go_on(&self) -> Option<f64> {
        let is_measured = self.sides.iter().any(|(_, command)| !command.ours);
        self.request.go_on.filter(|_| is_measured && self.watched && self.request.runs.is_none())
    }

    fn named(&self) -> Vec<Side> {
        let side = |(label, command): &(String, &Command)| Side {
            label: label.clone(),
            source: command.text.clone(),
            ..Side::default()
        };
        self.sides.iter().map(side).collect()
    }

    /// Blocks that do not count. By `auto`, until a block is like those before; a block's speed is
    /// the mean logarithm of its values, so that one side that warms up is enough to see it. Their
    /// spread determines the power of the runs that count.
    fn warm_up(
        &self,
        interrupts: &Interrupts,
        draw: &mut Rng,
        progress: &mut dyn FnMut(usize, u32, Stage),
    ) -> Result<WarmedUp, MeasureError> {
        let begin = Instant::now();
        // A simulation has nothing that warms up, and a run of this program a warm-up of its own.
        let ours = self.sides.iter().all(|(_, command)| command.ours);
        let (least, most) = match self.request.warmup {
            Warmup::Auto if ours => (0, 0),
            Warmup::Auto => (2, MOST_WARM_UP),
            Warmup::Blocks(blocks) => (blocks as usize, blocks as usize),
        };
        let auto = least < most;
        let (mut speeds, mut blocks) = (Vec::new(), Vec::new());
        for round in 0..most {
            if round >= least && settled(&speeds, self.request.same_within) {
                break;
            }
            let (mut logs, mut block) = (Vec::new(), vec![f64::NAN; self.sides.len()]);
            for side in order(draw, self.sides.len()) {
                progress(0, self.cap, Stage::WarmUp);
                match self.once(side, round as u64, interrupts, draw)? {
                    Outcome::Failed(how) if !self.request.ignore_failure => {
                        return Err(self.failed(side, "in the warm-up", &how));
                    }
                    Outcome::Failed(_) => {}
                    Outcome::Values(found, _) => {
                        logs.extend(found.iter().map(|(_, value)| value.abs().max(LEAST).ln()));
                        block[side] = found.first().map_or(f64::NAN, |(_, value)| value.ln());
                    }
                }
            }
            blocks.push(block);
            speeds.push(logs.iter().sum::<f64>() / logs.len().max(1) as f64);
        }
        let seconds = begin.elapsed().as_secs_f64() / blocks.len().max(1) as f64;
        let in_time = self.go_on().map_or(0.0, |time| time / seconds) as u64;
        let runs = in_time.min(GO_ON * u64::from(self.cap)).max(u64::from(self.cap));
        let planned = Planned::new(self.request, runs as u32, &blocks, seconds);
        progress(0, self.cap, Stage::Begin(planned));
        let stable = !auto || settled(&speeds, self.request.same_within);
        Ok(WarmedUp { blocks: speeds.len(), auto, stable })
    }

    /// One block. If a run of it fails and that is allowed, none of the block counts: the values
    /// of the sides stay pairs.
    fn block(
        &self,
        measured: &mut Measured,
        interrupts: &Interrupts,
        draw: &mut Rng,
        block: u64,
    ) -> Result<(), MeasureError> {
        let order = order(draw, self.sides.len());
        let mut values = vec![(Vec::new(), Disturbance::default()); self.sides.len()];
        let mut whole = true;
        for &side in &order {
            let count = &mut measured.failures[side];
            count.tried += 1;
            match self.once(side, block, interrupts, draw)? {
                Outcome::Values(found, disturbance) => values[side] = (found, disturbance),
                Outcome::Failed(how) => {
                    if count.failed == 0 {
                        count.first.clone_from(&how);
                    }
                    count.failed += 1;
                    whole = false;
                    if !self.request.ignore_failure {
                        return Err(self.failed(side, &format!("in run {}", block + 1), &how));
                    }
                }
            }
        }
        if whole {
            for (side, (found, disturbance)) in measured.sides.iter_mut().zip(values) {
                side.disturbance.get_or_insert_default().add(&disturbance);
                for (like, value) in &found {
                    side.push(like, *value);
                }
            }
            measured.order.push(order);
            measured.blocks += 1;
        }
        Ok(())
    }

    fn failed(&self, side: usize, when: &str, how: &str) -> MeasureError {
        let text = &self.sides[side].1.text;
        let text = format!("`{text}` {when}: {how}; correct it, or have failed runs left out");
        // The shell's codes for a command that is not there or cannot be executed.
        let missing = how.starts_with("ended with exit code 127;")
            || how.starts_with("ended with exit code 126;");
        MeasureError::Failed { text, missing }
    }

    fn once(
        &self,
        side: usize,
        block: u64,
        interrupts: &Interrupts,
        draw: &mut Rng,
    ) -> Result<Outcome, MeasureError> {
        if let Some(prepare) = &self.request.prepare {
            let done = run(&Program::shell(prepare), interrupts)?;
            if done.ending != Ending::Code(0) {
                let how = done.describe();
                let text = format!("`{prepare}` before a run {how}; correct it");
                return Err(MeasureError::machine(text));
            }
        }
        let command = self.sides[side].1;
        let mut program = command.program(self.request.seed, block);
        program.cpus.clone_from(&self.request.cpus);
        program.limit = self.request.timeout.map(Duration::from_secs_f64);
        let padding = "x".repeat(draw.below(PADDING));
        program.environment.push(("CONVOY_PADDING".to_owned(), padding.into()));
        let finished = run(&program, interrupts)?;
        if finished.ending != Ending::Code(0) {
            return Ok(Outcome::Failed(finished.describe()));
        }
        Ok(match self.values(command, &finished) {
            Ok(values) => Outcome::Values(values, finished.disturbance),
            Err(how) => Outcome::Failed(how),
        })
    }

    fn values(&self, command: &Command, finished: &Finished) -> Result<Vec<(Series, f64)>, String> {
        // A run is one value of its side, however often it repeated itself.
        fn mean(series: Series) -> Option<(Series, f64)> {
            let mean = Sample::new(series.values.clone()).ok()?.mean();
            Some((series, mean))
        }
        if command.ours {
            let text = String::from_utf8_lossy(&finished.stdout);
            let body =
                serde_json::from_str(&text).map_err(|error| format!("printed no JSON: {error}"))?;
            let series = command.printed(&body)?;
            return Ok(series.into_iter().filter_map(mean).collect());
        }
        let value = self.metric.value(finished).map_err(|error| error.to_string())?;
        let higher = self.request.higher_is_better;
        let like = Series::new("", &self.metric.name(), self.metric.unit(), higher);
        Ok(vec![(like, value)])
    }
}

fn no_failure(label: &str) -> Failures {
    Failures { label: label.to_owned(), failed: 0, tried: 0, first: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_ends_when_a_block_is_like_those_before() {
        fn blocks(values: &[f64]) -> usize {
            (1..=values.len()).find(|&n| settled(&values[..n], 0.01)).unwrap_or(values.len() + 1)
        }
        let logs = |values: &[f64]| values.iter().map(|value: &f64| value.ln()).collect::<Vec<_>>();
        assert_eq!(blocks(&logs(&[5.0, 5.0])), 2);
        assert_eq!(blocks(&logs(&[9.0, 5.0, 5.01])), 3);
        assert_eq!(blocks(&logs(&[9.0, 7.0, 6.0, 5.5, 5.0, 4.98])), 6);
        assert_eq!(blocks(&logs(&[5.0, 6.0, 7.0, 8.0])), 5, "slower and slower");
        // Noise of 16 % is soon within what was seen before.
        let mut draw = Rng::new(3);
        let mean = (0..1000).map(|_| {
            let values: Vec<f64> = (0..MOST_WARM_UP).map(|_| 0.16 * draw.normal()).collect();
            blocks(&values)
        });
        let mean = mean.sum::<usize>() as f64 / 1000.0;
        assert!((3.0..5.0).contains(&mean), "{mean}");
    }

    #[test]
    fn the_order_is_that_of_the_seed_and_fair() {
        fn orders(seed: u64) -> Vec<Vec<usize>> {
            let mut draw = Rng::new(seed);
            (0..2000).map(|_| order(&mut draw, 3)).collect::<Vec<_>>()
        }
        assert_eq!(orders(1), orders(1));
        assert_ne!(orders(1), orders(2));
        let mut seen = std::collections::BTreeMap::new();
        for order in orders(1) {
            *seen.entry(order).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6, "all orders");
        // A fair share is 333, with a standard deviation of 17.
        assert!(seen.values().all(|count| (250..420).contains(count)), "{seen:?}");
    }
}
