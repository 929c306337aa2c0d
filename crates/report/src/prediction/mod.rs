//! The sentences and tables of predictions. Facts come from `crates/predict`; English is written
//! here, last, and no code reads it.

mod advice;
mod doubt;
mod limit;
mod phrase;
mod rows;
#[cfg(test)]
mod tests;
mod units;

use convoy_predict::{Advice, Point, Prediction, SourceChange};
use serde_json::{Value, json};
use std::collections::BTreeSet;

use crate::page_wrap;
use units::{duration, rate};

pub use advice::advice;
pub use doubt::{doubts, reason};
pub use limit::verdict;
pub use rows::{bounds, short, table};

/// Returns a prediction as a page: the answer, the rows, and their basis.
pub fn prediction_text(prediction: &Prediction) -> String {
    prediction_head(prediction) + &prediction_rest(prediction, prediction)
}

/// Returns the first part of a page, which follows from arithmetic: the limit and the intervals.
pub fn prediction_head(prediction: &Prediction) -> String {
    page_of(answer(prediction).into_iter().chain(bounds(prediction)))
}

/// Returns the rest of a page of which the first part was printed for `first`: intervals that
/// simulations have narrowed, the rows, and their basis.
pub fn prediction_rest(prediction: &Prediction, first: &Prediction) -> String {
    let [now, before] = [prediction, first].map(rows::intervals);
    let narrowed = now.filter(|now| before.as_ref() != Some(now));
    let narrowed = narrowed.map(|now| format!("Narrowed by simulations, throughput {now}."));
    page_of(narrowed.into_iter()) + &rows::page(prediction) + &basis(prediction)
}

/// Returns the text before the page of advice: the limit, and the intervals of all changes by
/// arithmetic.
pub fn advice_head(prediction: &Prediction) -> String {
    page_of(answer(prediction).into_iter().chain(rows::changes(prediction))) + "\n"
}

/// Returns the lock that limits a program, and whether another lock can replace it.
fn answer(prediction: &Prediction) -> Vec<String> {
    let beyond = prediction.beyond.as_ref().map(limit::beyond);
    let others = prediction
        .other_limits
        .iter()
        .map(|limit| format!("Another record of the program: {}", limit::sentence(limit)));
    beyond.into_iter().chain([verdict(prediction)]).chain(others).collect()
}

fn page_of(sentences: impl Iterator<Item = String>) -> String {
    sentences.map(|text| page_wrap(&text)).collect()
}

/// Returns advice as a page: the advice, the commands, the rows, and their basis.
pub fn advice_text(advised: &Advice) -> String {
    let mut text = page_wrap(&advice(advised)) + "\n";
    if let Some(SourceChange { place, check }) = &advised.source {
        let place = place.as_ref().map_or(String::new(), |place| format!(" in {place}"));
        let how =
            format!("To measure the change of the source{place}, build it beside the program:");
        let measure = format!("{}\n  {check}\n\n", page_wrap(&how));
        text += &measure;
    }
    if let (Some(command), Some(check)) = (&advised.command, &advised.check) {
        let commands = format!("  {command}\n\nThis is predicted. To measure it:\n\n  {check}\n\n");
        text += &commands;
    }
    let prediction = &advised.prediction;
    text + rows::page(prediction).trim_start() + &basis(prediction)
}

/// Returns the facts of a prediction with their sentences.
///
/// # Panics
/// If the facts cannot be serialised: they are numbers and texts.
pub fn prediction_json(prediction: &Prediction) -> Value {
    with_sentences(serde_json::to_value(prediction).expect("numbers and text"), prediction)
}

/// Returns the facts of advice with their sentences.
///
/// # Panics
/// If the facts cannot be serialised: they are numbers and texts.
pub fn advice_json(advised: &Advice) -> Value {
    let mut value = serde_json::to_value(advised).expect("numbers and text");
    value["advice"] = json!(advice(advised));
    with_sentences(value, &advised.prediction)
}

fn with_sentences(mut value: Value, prediction: &Prediction) -> Value {
    value["verdict"] = json!(verdict(prediction));
    value["doubt"] = json!(prediction.reason.as_ref().map(reason));
    let facts = prediction.doubts.iter().map(|doubt| {
        let mut fact = serde_json::to_value(doubt).expect("numbers and text");
        fact["text"] = json!(doubt::text(doubt, prediction));
        fact
    });
    value["doubts"] = facts.collect();
    value
}

/// Returns the basis of the rows: the replay of the record, the machines, and doubts.
fn basis(prediction: &Prediction) -> String {
    let mut said: Vec<String> =
        prediction.anchor.iter().map(|point| line(point, prediction)).collect();
    // Without a simulation the record was not replayed.
    if prediction.anchor.len() > 1 {
        said.push(format!(
            "fitted to the record: wakeups x {:.2}, work between critical sections x {:.2}, {} of \
             sleep before each",
            prediction.anchor_wakeups,
            prediction.anchor_work,
            duration(prediction.anchor_sleep_us)
        ));
    }
    if !prediction.order.is_empty() && prediction.anchor.len() > 1 {
        let order: Vec<String> = prediction.order.iter().map(doubt::feature).collect();
        said.push(format!("Replayed in recorded order: {}.", order.join(", ")));
    }
    let machines: BTreeSet<_> =
        prediction.rows.iter().map(|row| (row.cpus, &row.machine)).collect();
    let named = machines.into_iter().filter(|(_, machine)| !machine.is_empty());
    said.extend(named.map(|(_, machine)| format!("Machine: {machine}.")));
    said.extend(doubts(prediction));
    "\n".to_owned() + &said.iter().map(|text| page_wrap(text)).collect::<String>()
}

fn line(point: &Point, prediction: &Prediction) -> String {
    let idle = if prediction.order.is_empty() {
        String::new()
    } else {
        format!(", {} for other threads", duration(point.idle_mean_us))
    };
    if point.acquisitions_per_s <= 0.0 {
        return format!("{}: no acquisitions of libc's locks", point.what);
    }
    format!(
        "{}: {:.0} acquisitions per second, {} of CPU each, mean wait {}{idle}",
        point.what,
        rate(point.acquisitions_per_s),
        duration(point.cpu_us),
        duration(point.wait_mean_us)
    )
}
