//! `convoy fix`: the lock that pays for a recorded program, and how to check that it does.

use crate::fail::Failure;
use crate::output;
use crate::predict::{Replays, print};
use clap::Args;
use convoy_predict::{Advice, Effort, Question, policies};
use std::process::ExitCode;
use std::sync::Arc;

/// `convoy fix`.
#[derive(Debug, Args)]
pub(crate) struct Fix {
    /// The record and the virtual machine.
    #[command(flatten)]
    replays: Replays,
    /// Number of locks to split the most contended lock into
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1024))]
    split: u32,
}

/// The command.
pub(crate) fn run(args: &Fix) -> Result<ExitCode, Failure> {
    let common = &args.replays.common;
    output::ready(common.output.as_deref())?;
    let record = Arc::new(args.replays.record()?);
    let question = Question {
        cpus: Vec::new(),
        threads: Vec::new(),
        policies: policies(&record),
        split: Some(args.split),
        rounds: args.replays.rounds,
        effort: Effort::FULL,
    };
    let advice = Advice::new(&record, args.replays.prediction(&record, question)?);
    let json = || serde_json::to_string_pretty(&advice).expect("numbers and text") + "\n";
    output::print(common, || text(&advice), json, || print::table(&advice.prediction).to_csv())?;
    Ok(ExitCode::SUCCESS)
}

fn text(advice: &Advice) -> String {
    let mut text = convoy_report::page_wrap(&advice.text) + "\n";
    if let (Some(command), Some(check)) = (&advice.command, &advice.check) {
        let commands = format!("  {command}\n\nThis is predicted. To measure it:\n\n  {check}\n\n");
        text += &commands;
    }
    text + print::rows(&advice.prediction).trim_start() + &print::foot(&advice.prediction)
}
