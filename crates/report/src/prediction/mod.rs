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

use convoy_predict::{Advice, Point, Prediction};
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
    let mut answer: Vec<String> =
        prediction.beyond.as_ref().map(limit::beyond).into_iter().collect();
    answer.push(verdict(prediction));
    answer.extend(bounds(prediction));
    let answer: String = answer.iter().map(|text| page_wrap(text)).collect();
    answer + &rows::page(prediction) + &basis(prediction)
}

/// Returns advice as a page: the advice, the commands, the rows, and their basis.
pub fn advice_text(advised: &Advice) -> String {
    let mut text = page_wrap(&advice(advised)) + "\n";
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
