//! `convoy fix`: the lock that pays for a recorded program, and how to check that it does.

use crate::fail::Failure;
use crate::output;
use crate::predict::{Choice, FAIR, Prediction, Replays, Row, SLEEP, Wanted};
use clap::Args;
use convoy_record::{HANDOFF, Kind, Program};
use serde::Serialize;
use std::process::ExitCode;

/// `convoy fix`.
#[derive(Debug, Args)]
pub(crate) struct Fix {
    /// What is replayed, and on what.
    #[command(flatten)]
    replays: Replays,
    /// Ways to split the lock, for programs that no other lock helps
    #[arg(long, value_name = "WAYS", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1024))]
    split: u32,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Advice {
    /// What to do, in sentences.
    #[serde(rename = "advice")]
    text: String,
    /// The program under the lock that pays; none if none does.
    command: Option<String>,
    /// The command that measures it.
    check: Option<String>,
    /// Every lock that was tried, as `convoy predict` has it.
    #[serde(flatten)]
    prediction: Prediction,
}

/// The command.
pub(crate) fn run(args: &Fix) -> Result<ExitCode, Failure> {
    let common = &args.replays.common;
    output::ready(common.output.as_deref())?;
    let record = args.replays.record()?;
    let kind = args.replays.first(&record)?.kind;
    let wanted = Wanted {
        cpus: Vec::new(),
        threads: Vec::new(),
        policy: policies(kind).iter().map(|name| Choice::new(name)).collect(),
        split: Some(args.split),
    };
    let prediction = args.replays.prediction(&record, &wanted)?;
    let advice = Advice::new(&record.program, kind, prediction);
    let json = || serde_json::to_string_pretty(&advice).expect("numbers and text") + "\n";
    output::print(common, || advice.to_text(), json, || advice.prediction.table().to_csv())?;
    Ok(ExitCode::SUCCESS)
}

/// What `convoy with` can put in place of a lock of this kind, libc's own first.
fn policies(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Mutex => &[SLEEP, "spin", FAIR, HANDOFF],
        Kind::Semaphore => &[SLEEP, HANDOFF],
        _ => &[SLEEP],
    }
}

/// The command line that runs the program under these locks; `sleep` is what libc does.
fn command(program: &Program, mutex: &str, sem: &str) -> String {
    let flags = [("mutex", mutex), ("sem", sem)].into_iter();
    let flags = flags.filter(|(_, name)| !["", SLEEP].contains(name));
    let flags = flags.map(|(flag, name)| format!("--{flag} {name} ")).collect::<Vec<_>>().concat();
    let words = shell_words::join(&program.command);
    if flags.is_empty() { words } else { format!("convoy with {flags}-- {words}") }
}

impl Advice {
    fn new(program: &Program, kind: Kind, prediction: Prediction) -> Self {
        let recorded = match program.policy(kind) {
            "" => SLEEP,
            policy => policy,
        };
        let (split, whole): (Vec<&Row>, Vec<&Row>) =
            prediction.rows.iter().partition(|row| row.split > 1);
        let now = whole.iter().copied().find(|row| row.policy == recorded);
        let others = whole.iter().copied().filter(|row| row.policy != recorded);
        let best = others.max_by(|a, b| a.change_percent.total_cmp(&b.change_percent));
        let known = prediction.doubt.is_none();
        let pays = best.filter(|row| known && row.low_percent > 0.0);
        let mut advice = match (best, pays) {
            _ if !known => "Nothing is advised: the replay is not this program.".to_owned(),
            (_, Some(row)) => {
                format!("`{}` in place of `{recorded}` pays: {}", row.policy, gain(row))
            }
            (Some(row), None) => format!(
                "No other lock is sure to pay. `{}`, the best, would give {}",
                row.policy,
                gain(row)
            ),
            (None, None) => {
                format!("`convoy with` has nothing in place of a {} yet.", kind.name())
            }
        };
        if let (Some(now), Some(row)) = (now, pays) {
            // What both round to is no price.
            let is_dearer = row.wait_p99_us > 1.1 * now.wait_p99_us || row.jain < now.jain - 0.02;
            let word = if is_dearer { "Its price" } else { "It is no less fair" };
            let price = format!(
                " {word}: 99 % of waits end within {:.0} us instead of {:.0}, and Jain's index \
                 of fairness is {:.2} instead of {:.2}.",
                row.wait_p99_us, now.wait_p99_us, row.jain, now.jain
            );
            advice += &price;
        }
        for row in split.into_iter().filter(|_| known) {
            let parts = format!(" The lock in {} parts would give {}", row.split, gain(row));
            advice += &parts;
        }
        let put = |policy: &str| match kind {
            Kind::Semaphore => command(program, &program.mutex, policy),
            _ => command(program, policy, &program.sem),
        };
        let (before, command) = (put(recorded), pays.map(|row| put(&row.policy)));
        let check = command.as_ref().map(|after| {
            let [before, after] = [&before, after].map(|text| shell_words::quote(text));
            format!("convoy compare {before} {after}")
        });
        Self { text: advice, command, check, prediction }
    }

    fn to_text(&self) -> String {
        let mut text = convoy_report::page_wrap(&self.text) + "\n";
        if let (Some(command), Some(check)) = (&self.command, &self.check) {
            let commands =
                format!("  {command}\n\nThis is predicted. To measure it:\n\n  {check}\n\n");
            text += &commands;
        }
        text + &self.prediction.head() + &self.prediction.table().to_text()
    }
}

/// `12 % more acquisitions a second (10 to 15 %).`
fn gain(row: &Row) -> String {
    let more = if row.change_percent < 0.0 { "fewer" } else { "more" };
    format!(
        "{:.0} % {more} acquisitions a second (from {:+.0} to {:+.0} %).",
        row.change_percent.abs(),
        row.low_percent,
        row.high_percent
    )
}
