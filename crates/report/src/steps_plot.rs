//! The picture of an execution: a column for each task, and time from top to bottom.

use crate::format::wrap;
use crate::plot_labels::{CHARACTER, Head};
use crate::svg::{BOLD, Drawing, END, GRID};

/// A step of an execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlotStep {
    /// The task, from 0.
    pub task: usize,
    /// The call that the task was executing.
    pub call: String,
    /// What it did, with the values.
    pub text: String,
    /// Whether it read an old value, or wrote before newer values or late.
    pub is_stale: bool,
    /// The file and the line of the operation; empty if unknown.
    pub source: String,
}

/// An execution of a few tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepsPlot {
    /// The result.
    pub title: String,
    /// The replayed scenario.
    pub subtitle: String,
    /// The steps, the first on top.
    pub steps: Vec<PlotStep>,
}

/// Blank on all sides.
const MARGIN: f64 = 16.0;
/// Room for the numbers of the steps.
const NUMBERS: f64 = 34.0;
/// Characters of a line of a task.
const LETTERS: usize = 32;
/// Width of a task: a line, with its mark and a gap.
const TASK: f64 = LETTERS as f64 * CHARACTER + 30.0;
/// Height of a line of text.
const LINE: f64 = 17.0;
/// Height of the names of the tasks.
const NAMES: f64 = 30.0;
/// Height of the legend.
const FOOT: f64 = 34.0;
/// Blue for steps, vermilion for stale ones, of the palette of the other plots.
const STEP: &str = "fill=\"#0072b2\"";
const STALE: &str = "fill=\"#fff\" stroke=\"#d55e00\" stroke-width=\"2.5\"";
const STALE_TEXT: &str = "fill=\"#b34e00\"";
const CALL: &str = "fill=\"#555\" font-style=\"italic\"";
/// The time of a task.
const TIME: &str = "stroke=\"#bbb\"";
/// A place in the source.
const PLACE: &str = "fill=\"#555\" font-size=\"12\"";

/// A step with its lines of text.
struct Placed<'a> {
    step: &'a PlotStep,
    /// Whether the first line is the call, which began.
    calls: bool,
    lines: Vec<String>,
}

impl StepsPlot {
    /// A self-contained SVG file.
    pub fn to_svg(&self) -> String {
        let tasks = self.steps.iter().map(|step| step.task + 1).max().unwrap_or(1);
        let places = self.steps.iter().map(|step| step.source.chars().count()).max();
        let right = MARGIN + NUMBERS + TASK * tasks as f64;
        let whole = right + CHARACTER * places.unwrap_or(0) as f64 + MARGIN;
        let head = Head::new(&self.title, &self.subtitle, &[], whole - 2.0 * MARGIN);
        let placed = self.placed(tasks);
        let lines: usize = placed.iter().map(|step| step.lines.len()).sum();
        let steps = LINE * lines as f64 + 6.0 * placed.len() as f64;
        let top = head.height() + NAMES;
        let mut svg = Drawing::new(&self.title, whole, top + steps + FOOT + MARGIN);
        head.draw(&mut svg, MARGIN);
        for task in 0..tasks {
            let x = column(task);
            svg.text(x - 4.0, top - 12.0, BOLD, &format!("task {task}"));
            svg.path(&format!("M{x:.1} {top:.1}v{steps:.1}"), TIME);
        }
        let mut y = top;
        for (number, step) in (1..).zip(&placed) {
            svg.path(&format!("M{MARGIN} {y:.1}H{:.1}", whole - MARGIN), GRID);
            y += step.draw(&mut svg, number, y, right);
        }
        let (x, y) = (MARGIN + NUMBERS, y + FOOT - 8.0);
        svg.dot(x, y - 4.5, 4.0, STALE);
        svg.text(
            x + 12.0,
            y,
            "",
            "a stale step: it reads an old value, or writes before newer ones or late",
        );
        svg.finish()
    }

    fn placed(&self, tasks: usize) -> Vec<Placed<'_>> {
        let mut calls = vec![""; tasks];
        let placed = self.steps.iter().map(|step| {
            let call = std::mem::replace(&mut calls[step.task], &step.call);
            let begins = call != step.call && !step.call.is_empty();
            let mut lines = if begins { wrap(&step.call, LETTERS) } else { Vec::new() };
            lines.truncate(1);
            lines.extend(wrap(&step.text, LETTERS));
            Placed { step, calls: begins, lines }
        });
        placed.collect()
    }
}

/// Returns where the time of a task is drawn.
fn column(task: usize) -> f64 {
    MARGIN + NUMBERS + TASK * task as f64 + 8.0
}

impl Placed<'_> {
    /// Returns the height that it needed.
    fn draw(&self, svg: &mut Drawing, number: usize, top: f64, right: f64) -> f64 {
        let Self { step, calls, lines } = self;
        let x = column(step.task);
        svg.text(MARGIN + NUMBERS - 12.0, top + LINE, END, &number.to_string());
        svg.text(right, top + LINE, PLACE, &step.source);
        let mark = top + LINE - 4.5 + if *calls { LINE } else { 0.0 };
        svg.dot(x, mark, 4.0, if step.is_stale { STALE } else { STEP });
        for (row, line) in lines.iter().enumerate() {
            let look = match (*calls && row == 0, step.is_stale) {
                (true, _) => CALL,
                (false, true) => STALE_TEXT,
                (false, false) => "",
            };
            svg.text(x + 12.0, top + LINE * (row + 1) as f64, look, line);
        }
        LINE * lines.len() as f64 + 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_side_by_side_and_stale_steps_are_marked() {
        let step = |task, text: &str, is_stale| PlotStep {
            task,
            call: "lock".to_owned(),
            text: text.to_owned(),
            is_stale,
            source: format!("lock.rs:{task}"),
        };
        let steps =
            vec![step(0, "stores x = 1", false), step(1, "reads x = 0 (the newest is 1)", true)];
        let svg = StepsPlot { title: "a <b>".to_owned(), steps, ..StepsPlot::default() }.to_svg();
        let at = |text: &str| {
            let line = svg.lines().find(|line| line.contains(text)).expect("it is drawn");
            let mut numbers = line.split('"').filter_map(|part| part.parse::<f64>().ok());
            let place = numbers.next().zip(numbers.next()).expect("a place");
            // Tenths of pixels.
            ((10.0 * place.0) as u32, (10.0 * place.1) as u32)
        };
        let ((x, y), (other_x, other_y)) = (at("stores x"), at("reads x"));
        assert!(other_x > x && other_y > y);
        assert_eq!(at("lock.rs:0").0, at("lock.rs:1").0);
        // One step and the legend.
        assert_eq!(svg.matches(STALE).count(), 2);
        assert_eq!(svg.matches(STEP).count(), 1);
        assert!(svg.contains("a &lt;b&gt;"));
    }
}
