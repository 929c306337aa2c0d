//! The posterior during the search: one changing line on a terminal, plain lines if standard error
//! is not a terminal.

use crate::args::Common;
use crate::output;
use convoy_measure::bisect::{Commit, Commits, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Share of the posterior that the set on display holds.
const SET: f64 = 0.99;
/// Time between two plain lines.
const LINES: Duration = Duration::from_secs(2);

/// Where progress goes.
#[derive(Debug)]
pub(crate) struct Live {
    bar: Option<ProgressBar>,
    quiet: bool,
    last: String,
    visit: String,
    /// When the last plain line was printed.
    printed: Instant,
}

impl Live {
    pub(crate) fn new(common: &Common) -> Self {
        let bar = (!common.quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{spinner} {elapsed_precise} {wide_msg}");
            bar.set_style(style.expect("a valid template"));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self {
            bar,
            quiet: common.quiet,
            last: String::new(),
            visit: String::new(),
            printed: Instant::now(),
        }
    }

    pub(crate) fn take(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Visit { commit, runs, why } => self.visit(commit, runs, why),
            Progress::Building(commit) => {
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("{} | building {}", self.last, commit.short()));
                }
            }
            Progress::Observed { search, commits, builds, bits } if !self.quiet => {
                let runs = search.runs();
                self.last = summary(search.posterior(), commits, [runs, builds], bits);
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("{} | {}", self.last, self.visit));
                }
            }
            Progress::Observed { .. } => {}
            Progress::Note(text) => self.line(text),
            Progress::End => self.finish(),
        }
    }

    /// The search turns to `commit`.
    fn visit(&mut self, commit: &Commit, runs: u32, why: &str) {
        if self.bar.is_none() && !self.last.is_empty() && self.printed.elapsed() > LINES {
            self.line(&self.last);
            self.printed = Instant::now();
        }
        self.visit = format!("{} of {}: {why}", counted(runs as usize, "run"), commit.short());
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if !self.quiet => output::say(text),
            None => {}
        }
    }

    /// The message after an interrupt, with the result so far.
    pub(crate) fn with_latest(&self, message: &str) -> String {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
        if self.last.is_empty() {
            return message.to_owned();
        }
        format!("{message}; so far {}", self.last)
    }

    fn finish(&mut self) {
        match &self.bar {
            Some(bar) => bar.finish_and_clear(),
            None if !self.last.is_empty() => self.line(&self.last),
            None => {}
        }
        self.last.clear();
    }
}

/// Runs and builds so far, the number of commits left, the likeliest one, and the time left.
fn summary(posterior: &[f64], commits: &Commits, [runs, builds]: [u32; 2], bits: f64) -> String {
    let mut order: Vec<usize> = (0..posterior.len()).collect();
    order.sort_by(|a, b| posterior[*b].total_cmp(&posterior[*a]).then(a.cmp(b)));
    let mut sum = 0.0;
    let left = order.iter().take_while(|node| {
        let more = sum < SET;
        sum += posterior[**node];
        more
    });
    let left = left.count();
    let entropy: f64 = posterior.iter().filter(|p| **p > 0.0).map(|p| -p * p.log2()).sum();
    let more = match entropy / bits {
        // One commit holds the set: what follows confirms it.
        _ if left == 1 => String::new(),
        more if more.is_finite() && more > 0.0 => {
            format!(", about {}", counted(more.ceil() as usize, "more run"))
        }
        _ => String::new(),
    };
    let leader = &commits.list[order[0]];
    format!(
        "{}, {}: {} in the 99 % set, {} leads with {:.1} %{more}",
        counted(runs as usize, "run"),
        counted(builds as usize, "build"),
        counted(left, "commit"),
        leader.short(),
        100.0 * posterior[order[0]],
    )
}

/// `1 run`, `2 runs`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_the_credible_set() {
        let commit = |id: &str| Commit {
            id: id.repeat(40),
            author: String::new(),
            date: String::new(),
            subject: String::new(),
        };
        let commits = Commits {
            list: ["a", "b", "c", "d"].map(commit).into(),
            parents: vec![vec![], vec![0], vec![1], vec![2]],
        };
        let text = summary(&[0.0, 0.25, 0.5, 0.25], &commits, [12, 3], 0.5);
        assert_eq!(
            text,
            "12 runs, 3 builds: 3 commits in the 99 % set, cccccccccccc leads with 50.0 %, about 3 \
             more runs"
        );
        let text = summary(&[0.0, 0.0, 1.0, 0.0], &commits, [12, 3], 0.0);
        assert!(text.ends_with("1 commit in the 99 % set, cccccccccccc leads with 100.0 %"));
    }
}
