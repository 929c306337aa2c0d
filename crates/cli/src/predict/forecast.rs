//! The prediction of a record as sections of a page.

use super::{Replays, plot};
use crate::fail::Failure;
use convoy_predict::{Advice, Question, policies};
use convoy_record::Record;
use convoy_report::{Block, prediction};
use std::path::Path;
use std::sync::Arc;

/// Factors of the recorded number of CPUs for which the curves have points.
const TIMES: [u32; 3] = [2, 4, 8];

/// What `predict` and `fix` say of a record, with the `least` simulations if it says so.
pub(crate) fn sections(
    record: &Record,
    name: &str,
    store: Option<&Path>,
    least: bool,
) -> Result<Vec<(&'static str, Vec<Block>)>, Failure> {
    let replays = Replays::of(name, store, least);
    let record = Arc::new(record.clone());
    let now = record.program.cpus.max(1);
    let more = TIMES.iter().map(|times| now * times).filter(|cpus| *cpus <= 64);
    let mut cpus: Vec<u32> = [1, now].into_iter().chain(more).collect();
    cpus.dedup();
    let rounds = replays.rounds;
    let question = |cpus, split| Question {
        cpus,
        threads: Vec::new(),
        policies: policies(&record),
        split,
        edits: split.is_some(),
        rounds,
        effort: replays.effort(),
    };
    let whole = |question| {
        let (prediction, _) = replays.prediction(&record, question, None)?;
        if prediction.missing > 0 { Err(Failure::interrupted(0)) } else { Ok(prediction) }
    };
    let curves = whole(question(cpus.clone(), None))?;
    let mut blocks = vec![Block::text(prediction::verdict(&curves))];
    blocks.extend(prediction::bounds(&curves).map(Block::text));
    if !curves.rows.is_empty() {
        blocks.push(Block::plot(&plot::curves(&curves)));
        blocks.push(Block::table(&prediction::table(&curves)));
    }
    blocks.extend(prediction::doubts(&curves).into_iter().map(Block::text));
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let name = shell_words::quote(name);
    blocks.push(Block::command(format!("convoy predict {name} --cpus {}", list.join(","))));
    let advice = Advice::new(&record, whole(question(vec![], Some(4)))?);
    let mut fix = vec![Block::text(prediction::advice(&advice))];
    fix.extend(advice.command.as_ref().map(Block::command));
    if let Some(source) = &advice.source {
        fix.push(Block::text("This is a change of the source. To measure a changed build of it:"));
        fix.push(Block::command(&source.check));
    }
    if let Some(check) = &advice.check {
        fix.push(Block::text("This is predicted. To measure it:"));
        fix.push(Block::command(check));
    }
    fix.push(Block::command(format!("convoy fix {name}")));
    Ok(vec![("Prediction: throughput over CPUs", blocks), ("Which lock to take", fix)])
}
