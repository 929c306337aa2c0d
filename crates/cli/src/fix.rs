//! `convoy fix`: the lock that pays for a recorded program, and how to check that it does.

use crate::fail::Failure;
use crate::output;
use crate::predict::{Replays, complete, plot};
use clap::Args;
use convoy_predict::{Advice, Prediction, Question, policies};
use convoy_report::prediction;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, Args)]
pub(crate) struct Fix {
    /// The record and the virtual machine.
    #[command(flatten)]
    replays: Replays,
    /// Number of locks to split the most contended lock into
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1024))]
    split: u32,
    /// Write a plot of the gain of each change to FILE.svg
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(args: &Fix) -> Result<ExitCode, Failure> {
    let common = &args.replays.common;
    output::ready(common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), false)?;
    let record = Arc::new(args.replays.record()?);
    let question = Question {
        cpus: Vec::new(),
        threads: Vec::new(),
        policies: policies(&record),
        split: Some(args.split),
        edits: true,
        rounds: args.replays.rounds,
        effort: args.replays.effort(),
    };
    let head = Some(prediction::advice_head as fn(&Prediction) -> String);
    let (prediction, _) = args.replays.prediction(&record, question, head)?;
    let advice = Advice::new(&record, prediction);
    let text = || prediction::advice_text(&advice);
    let json = || format!("{:#}\n", prediction::advice_json(&advice));
    output::print(common, text, json, || prediction::table(&advice.prediction).to_csv())?;
    if let Some(path) = args.plot.as_ref().filter(|_| !advice.prediction.rows.is_empty()) {
        let plot = plot::changes(&advice.prediction, &prediction::advice(&advice));
        output::plot(common, path, &plot.to_svg(), None)?;
    }
    complete(&advice.prediction)
}
