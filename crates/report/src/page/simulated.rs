//! The pages of simulated runs and of stored experiments.

use convoy_explain::{Lanes, OverTime};

use super::{Block, Page};
use crate::explain::ExplainReport;
use crate::explain_text;
use crate::plot::{Axis, Panel, Plot, Point, Series};
use crate::range::Scale;
use crate::table::Table;

/// Locks that the page shows.
const LOCKS: usize = 100;

impl ExplainReport {
    /// As a page, with the folded stacks of the run, its states over time, and what tasks did
    /// around the longest convoy.
    pub fn page(&self, stacks: &[(Vec<String>, u64)], over: &OverTime, lanes: Lanes) -> Page {
        let mut page = Page::new(&self.title, self.verdict());
        let texts = |texts: Vec<String>| texts.into_iter().map(Block::text).collect::<Vec<_>>();
        page.section("Cause", texts(explain_text::cause(&self.summary)));
        if !over.seconds.is_empty() {
            page.section("The whole run", vec![Block::plot(&over_time(over))]);
        }
        if !lanes.threads.is_empty() {
            page.section("Tasks around the longest convoy", vec![Block::simulated(lanes)]);
        }
        if let Some(convoy) = &self.summary.longest {
            let mut story = texts(explain_text::narrate(convoy));
            if !convoy.chain.is_empty() {
                story.push(Block::text("The wakeups that led to its end:"));
                story.extend(convoy.chain.iter().map(|hop| Block::text(explain_text::hop(hop))));
            }
            page.section("The longest convoy", story);
        }
        page.section("CPU time", vec![Block::table(&self.states()), Block::table(&self.idle())]);
        page.section("Locks", vec![Block::table(&self.locks(LOCKS))]);
        if !stacks.is_empty() {
            page.section("Flame graph of waiting", vec![Block::flame(stacks)]);
        }
        let mut chain = texts(explain_text::chain(&self.summary));
        chain.extend(self.summary.chain.last.iter().map(|hop| Block::text(explain_text::hop(hop))));
        page.section("The critical chain", chain);
        let mut end = texts(self.notes.clone());
        end.push(Block::text(format!("Schedule hash {}. To do it again:", self.hash)));
        end.push(Block::command(&self.replay));
        page.section("Where this comes from", end);
        page
    }
}

/// The states of the CPUs over time as curves.
fn over_time(over: &OverTime) -> Plot {
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Linear };
    let points = |values: &[f64]| -> Vec<Point> {
        let pairs = over.seconds.iter().zip(values);
        pairs.map(|(&x, &y)| Point { x, y, lo: f64::NAN, hi: f64::NAN }).collect()
    };
    let line =
        |(name, values): &(String, Vec<f64>)| Series { name: name.clone(), points: points(values) };
    let panel = |title: &str, y: &str, series: Vec<Series>| Panel {
        title: title.to_owned(),
        x: axis("virtual seconds"),
        y: axis(y),
        series,
    };
    let mut panels = vec![panel(
        "What the CPUs did",
        "% of the CPU time",
        over.series.iter().map(line).collect(),
    )];
    if over.stalled.iter().any(|percent| *percent >= 1.0) {
        let series = Series { name: "owner off CPU".to_owned(), points: points(&over.stalled) };
        let title = "A lock is wanted and its owner is on no CPU, sum over all locks";
        panels.push(panel(title, "% of the time", vec![series]));
    }
    Plot { title: String::new(), subtitle: String::new(), panels }
}

impl Page {
    /// Of a stored run: its verdict, its plot if it kept one, and its tables.
    pub fn stored(title: &str, verdict: &str, plot: Option<Block>, tables: &[Table]) -> Self {
        let mut page = Self::new(title, if verdict.is_empty() { title } else { verdict });
        page.section("Curves", plot.into_iter().collect());
        page.section("Tables", tables.iter().map(Block::table).collect());
        page
    }
}
