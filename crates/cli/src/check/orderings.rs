//! `convoy check --orderings`: the weakest memory orderings of a lock's source.

use crate::args::Common;
use crate::experiment::{Told, execute, threads};
use crate::fail::Failure;
use crate::output;
use convoy_checker::{BrokenOrder, Budget, Job, Operation, Order, Ordered, Part, Weak, Weakening};
use convoy_lab::job::JobError;
use convoy_lab::pool::{Watch, simulate};
use convoy_report::{
    BrokenOrdering, OrderingRow, OrderingsReport, PassedOrdering, UnreachedOrdering, WeakSearch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// Executions of a scenario with one choice of orderings, unless a flag says otherwise.
const EXECUTIONS: u64 = 200_000;

/// Operations of each source file that could be read.
type Sources = BTreeMap<&'static str, Vec<Operation>>;

/// Place of an operation: file, line and column.
type Place = (&'static str, u32, u32);

/// Searches the locks named by `words`, with `executions` of each scenario.
pub(super) fn run(
    words: &[String],
    executions: Option<u64>,
    details: bool,
    common: &Common,
) -> Result<ExitCode, Failure> {
    let subjects = convoy_checker::select(words).map_err(Failure::usage)?;
    let executions = executions.unwrap_or(EXECUTIONS);
    let budget = Budget { executions, ..Budget::default() };
    let mut search = Weakening::new(&subjects, budget);
    let threads = threads(None)?;
    loop {
        let jobs = search.jobs();
        if jobs.is_empty() {
            break;
        }
        let names: Vec<_> = jobs.iter().map(Job::about).collect();
        let (count, cells) = (jobs.len(), jobs.into_iter().enumerate().collect());
        let start = |watch: &mut Watch<_>| {
            simulate(cells, threads, |job: &Job| Ok::<_, JobError>(job.run()), watch)
        };
        let done = execute(common, "orderings", count, start, |at, _| {
            Ok(Told { latest: names.get(at).cloned(), ..Told::default() })
        })?;
        if done.interrupted {
            return Err(Failure::interrupted(0));
        }
        search.take(done.outcomes.into_iter().flatten().collect());
    }
    let report = report(&search, executions);
    let text = || if details { report.to_details() } else { report.to_text() };
    output::print(common, text, || report.to_json(), || report.to_csv())?;
    Ok(ExitCode::SUCCESS)
}

fn report(search: &Weakening, executions: u64) -> OrderingsReport {
    let (rows, places) = (search.rows(), search.places());
    let files: BTreeSet<_> = rows.iter().map(|row| row.site.file).collect();
    let read = |&file: &&'static str| {
        let text = std::fs::read_to_string(file).ok()?;
        Some((file, convoy_checker::operations(&text)))
    };
    let sources: Sources = files.iter().filter_map(read).collect();
    let unread = files.iter().filter(|file| !sources.contains_key(*file));
    OrderingsReport {
        title: format!(
            "at most {executions} executions of each scenario, two preemptions, two stale steps"
        ),
        unreached: unreached(&sources, &places),
        unread: unread.map(|&file| file.to_owned()).collect(),
        violated: search.violated().to_vec(),
        rows: rows.into_iter().map(|ordered| row(ordered, &sources)).collect(),
    }
}

/// Returns the operations with an ordering that is not relaxed, and that no scenario reached.
fn unreached(sources: &Sources, places: &BTreeSet<Place>) -> Vec<UnreachedOrdering> {
    let operations = sources
        .iter()
        .flat_map(|(&file, operations)| operations.iter().map(move |operation| (file, operation)));
    let unreached = operations.filter(|(file, operation)| {
        let place = (*file, operation.line, operation.column);
        !operation.orders.is_empty() && !places.contains(&place)
    });
    let unreached = unreached.map(|(file, operation)| UnreachedOrdering {
        file: file.to_owned(),
        line: operation.line,
        function: operation.function.clone(),
        operation: operation.name.to_owned(),
        orderings: operation.orders.iter().map(|&order| order.to_owned()).collect(),
    });
    unreached.collect()
}

/// Returns a search under a weaker memory model as the report has it.
pub(super) fn weak(search: Weak) -> WeakSearch {
    let Weak { explored, exhaustive, preemptions, stale, .. } = search;
    WeakSearch { explored, exhaustive, preemptions, stale }
}

fn row(ordered: Ordered, sources: &Sources) -> OrderingRow {
    let Ordered { site, alone, together, broken, passes } = ordered;
    let mut operations = sources.get(site.file).into_iter().flatten();
    let place = (site.line, site.column);
    let operation = operations.find(|operation| (operation.line, operation.column) == place);
    let name = |order| name(site.part, order).to_owned();
    OrderingRow {
        file: site.file.to_owned(),
        line: site.line,
        column: site.column,
        function: operation.map(|operation| operation.function.clone()).unwrap_or_default(),
        access: site.part.name().to_owned(),
        ordering: name(site.order),
        alone: name(alone),
        weakest: name(together),
        needed: together == site.order,
        broken: broken.map(|BrokenOrder { order, together, lock, scenario, property, steps }| {
            BrokenOrdering {
                ordering: name(order),
                together,
                lock: lock.to_owned(),
                scenario,
                property: property.name().to_owned(),
                steps,
            }
        }),
        passes: passes.map(|passes| PassedOrdering {
            scenarios: passes.scenarios,
            executions: passes.executions,
            least: weak(passes.least),
        }),
    }
}

/// Returns the name of an ordering as in the source.
fn name(part: Part, order: Order) -> &'static str {
    match order {
        Order::Relaxed if part == Part::Fence => "none",
        Order::Relaxed => "Relaxed",
        Order::Acquire => "Acquire",
        Order::Release => "Release",
        Order::AcqRel => "AcqRel",
        Order::SeqCst => "SeqCst",
    }
}
