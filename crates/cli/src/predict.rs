//! `convoy predict`: a recorded program with other CPUs, threads and locks.

use crate::args::{Common, Numbers, numbers};
use crate::experiment::apart;
use crate::explain::{find, parser};
use crate::fail::Failure;
use crate::keep::STORE_HELP;
use crate::output;
use crate::presets::Sets;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use convoy_predict::{
    Choice, Effort, Known, Machines, PredictError, Prediction, Question, names, predict_aloud,
};
use convoy_record::Record;
use convoy_report::prediction::{
    prediction_head, prediction_json, prediction_rest, prediction_text, short, table,
};
use convoy_store::LAST;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) mod forecast;
pub(crate) mod plot;

#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// The record and the virtual machine.
    #[command(flatten)]
    replays: Replays,
    /// Further records of the same program: one answer, with the range between the runs
    #[arg(value_name = "RECORD", value_parser = parser())]
    more: Vec<String>,
    /// Numbers of CPUs, such as 2,8 or 4-16/4 [default: as recorded]
    #[arg(long, value_name = "LIST", value_parser = numbers(1..=1024))]
    cpus: Option<Numbers>,
    /// Numbers of threads [default: as recorded]
    #[arg(long, value_name = "LIST", value_parser = numbers(1..=10_000))]
    threads: Option<Numbers>,
    /// Locks to try in place of every recorded lock: policies of `convoy with` or locks from
    /// `convoy lab list locks`
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "sleep,spin,fair,handoff"
    )]
    #[arg(value_parser = PossibleValuesParser::new(names()).map(|name| Choice::new(&name)))]
    policy: Vec<Choice>,
    /// Also predict with the most contended lock split into N locks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    split: Option<u32>,
    /// Write a plot over several numbers of CPUs or threads to FILE.svg
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    plot: Option<PathBuf>,
}

/// The record and the virtual machine: flags of `convoy predict` and `convoy fix`.
#[derive(Debug, Args)]
pub(crate) struct Replays {
    /// A file of convoy record, the number of a stored record, or `@TAG`
    #[arg(value_name = "RECORD", value_parser = parser(), default_value = LAST)]
    record: String,
    /// Simulations per row. Each uses a different seed and a wakeup cost drawn from the recorded
    /// interquartile range
    #[arg(long, value_name = "N", default_value_t = ROUNDS)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) rounds: u64,
    /// Kernel preset
    #[arg(long, value_name = "PRESET", default_value = KERNEL, help_heading = "Virtual machine")]
    kernel: String,
    /// Machine preset of the rows [default: the nearest real machine]
    #[arg(long, value_name = "PRESET", help_heading = "Virtual machine")]
    machine: Option<String>,
    #[command(flatten)]
    sets: Sets,
    /// The store of the record.
    #[arg(long, value_name = "FILE", help = STORE_HELP, hide_short_help = true)]
    store: Option<PathBuf>,
    /// Simulate for a few milliseconds only; the numbers mean nothing. For tests of many records
    #[arg(long, hide = true)]
    pub(crate) least: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Default number of simulations per row.
const ROUNDS: u64 = 3;
const KERNEL: &str = "6.18";

impl Replays {
    /// Returns the flags with their default values, or with the `least` simulations.
    pub(crate) fn of(record: &str, store: Option<&Path>, least: bool) -> Self {
        Self {
            record: record.to_owned(),
            rounds: if least { 1 } else { ROUNDS },
            kernel: KERNEL.to_owned(),
            machine: None,
            sets: Sets::default(),
            store: store.map(Path::to_owned),
            least,
            common: Common::default(),
        }
    }
}

pub(crate) fn run(args: &Predict) -> Result<ExitCode, Failure> {
    let common = &args.replays.common;
    output::ready(common.output.as_deref())?;
    output::ready_to_draw(args.plot.as_deref(), true)?;
    can_draw(args)?;
    let question = Question {
        cpus: args.cpus.clone().unwrap_or_default().0,
        threads: args.threads.clone().unwrap_or_default().0,
        policies: args.policy.clone(),
        split: args.split,
        edits: false,
        rounds: args.replays.rounds,
        effort: args.replays.effort(),
    };
    let (prediction, first) = if args.more.is_empty() {
        let record = Arc::new(args.replays.record()?);
        args.replays.prediction(&record, question, Some(prediction_head))?
    } else {
        (pooled(args, &question)?, None)
    };
    let text = || match &first {
        Some(first) => prediction_rest(&prediction, first),
        None => prediction_text(&prediction),
    };
    let json = || format!("{:#}\n", prediction_json(&prediction));
    output::print(common, text, json, || table(&prediction).to_csv())?;
    if let Some(path) = args.plot.as_ref().filter(|_| !prediction.rows.is_empty()) {
        let plot = plot::curves(&prediction);
        output::plot(common, path, &plot.to_svg(), Some(&plot.to_csv()))?;
    }
    complete(&prediction)
}

/// Returns one prediction from all records, which must be of one program.
fn pooled(args: &Predict, question: &Question) -> Result<Prediction, Failure> {
    let mut records = vec![Arc::new(args.replays.record()?)];
    for name in &args.more {
        records.push(Arc::new(args.replays.named(name)?));
        if records.last().map(|record| &record.program.command) != Some(&records[0].program.command)
        {
            let [first, other] = [&args.replays.record, name];
            let text = format!("{first} and {other} are records of different commands");
            return Err(Failure::usage(text));
        }
    }
    let predictions = records.iter().map(|record| {
        let (prediction, _) = args.replays.prediction(record, question.clone(), None)?;
        Ok(prediction)
    });
    let predictions = predictions.collect::<Result<Vec<_>, Failure>>()?;
    Prediction::pooled(predictions).ok_or_else(|| Failure::usage("no record"))
}

/// Refuses a plot that would be a point, before anything is simulated.
fn can_draw(args: &Predict) -> Result<(), Failure> {
    let lists = [&args.cpus, &args.threads];
    let is_curve = lists.into_iter().flatten().any(|list| list.0.len() > 1);
    if args.plot.is_none() || is_curve {
        return Ok(());
    }
    Err(Failure::usage(
        "--plot draws throughput over CPUs or threads; give several, such as --cpus 1,2,4,8",
    ))
}

/// Returns the exit code of a prediction that is printed: an interrupt may have left rows out.
pub(crate) fn complete(prediction: &Prediction) -> Result<ExitCode, Failure> {
    match prediction.missing {
        0 => Ok(ExitCode::SUCCESS),
        missing => Err(Failure::environment(format!(
            "interrupted; {missing} rows are missing, start it again for all"
        ))),
    }
}

impl Replays {
    pub(crate) fn effort(&self) -> Effort {
        if self.least { Effort::LEAST } else { Effort::FULL }
    }

    pub(crate) fn record(&self) -> Result<Record, Failure> {
        self.named(&self.record)
    }

    fn named(&self, name: &str) -> Result<Record, Failure> {
        find(name, self.store.as_deref())?.ok_or_else(|| {
            Failure::usage(format!(
                "{name} is not a record of a program; name a file that convoy record wrote, or a \
                 number of convoy runs list"
            ))
        })
    }

    /// Replays the record, then the question. After an interrupt, the rows that are known. Returns
    /// the bounds as well if their `head` was printed before the replays.
    pub(crate) fn prediction(
        &self,
        record: &Arc<Record>,
        question: Question,
        head: Option<fn(&Prediction) -> String>,
    ) -> Result<(Prediction, Option<Prediction>), Failure> {
        let machines = Machines {
            kernel: self.sets.kernel(&self.kernel)?.value,
            machine: self.machine.clone(),
            sets: self.sets.iter().cloned().collect(),
        };
        let record = Arc::clone(record);
        let bar = output::progress(&self.common, 0);
        bar.set_message("replaying the record on the virtual machine");
        let latest = Arc::new(Mutex::new(None));
        let first = Arc::new(OnceLock::new());
        let (shown, kept) = (bar.clone(), Arc::clone(&latest));
        let (bounded, common) = (Arc::clone(&first), self.common.clone());
        let told = move |known: Known| {
            shown.set_length(known.of as u64);
            shown.set_position(known.done as u64);
            if let Some(prediction) = known.prediction {
                if let Some(head) = head.filter(|_| known.done == 0) {
                    bounded.get_or_init(|| {
                        let is_printed =
                            shown.suspend(|| output::early(&common, &head(&prediction)));
                        is_printed.then(|| prediction.clone())
                    });
                }
                if let Some(row) = prediction.rows.last() {
                    shown.set_message(short(row));
                }
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(prediction);
            }
        };
        let done =
            apart(move || Ok::<_, Infallible>(predict_aloud(&record, &machines, &question, &told)));
        bar.finish_and_clear();
        let known = || latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let first = first.get().cloned().flatten();
        let Some(done) = done? else {
            let known = known().ok_or_else(|| Failure::interrupted(0))?;
            return Ok((known, first));
        };
        let prediction = done.map_err(|error| match error {
            PredictError::Virtual(_) => Failure::environment(error),
            _ => Failure::usage(format!("{}: {error}", self.record)),
        })?;
        Ok((prediction, first))
    }
}
