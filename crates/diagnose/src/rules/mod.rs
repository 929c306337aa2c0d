//! The rules: each turns evidence into a [`Problem`], in the order of [`RULES`]. The first rule
//! that matches a lock explains why threads waited for it.

mod deadlock;
mod herd;
mod java;
pub(crate) mod kernel;
mod lines;
mod plain;
mod processes;
mod runtimes;
mod second;
mod spin;
mod wait;

pub(crate) use java::{is_dumped, queue, waiting_for_room};
pub(crate) use kernel::unknown as unknown_kernel_wait;
pub(crate) use processes::unknown as unknown_processes;

use convoy_record::{HANDOFF, Lock, Process, Record};

use crate::account::{Account, is_owned};
use crate::evidence::{Evidence, is_of_python};
use crate::finding::Finding;
use crate::gap::Gap;
use crate::problem::Problem;

/// Returns the problem of a lock if this rule applies.
type Rule = fn(&Evidence<'_>) -> Option<Problem>;

/// The rules on waits for a lock, in order.
const RULES: [Rule; 13] = [
    runtimes::libc,
    runtimes::stream,
    runtimes::other,
    wait::itself,
    wait::starvation,
    wait::limit,
    runtimes::computes,
    wait::asleep,
    wait::waits,
    wait::hog,
    wait::spins,
    wait::preempted,
    wait::long,
];

/// Returns all findings of a record, in no order.
pub(crate) fn findings(record: &Record, account: &Account) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for process in &record.processes {
        findings.extend(deadlock::of_process(process));
        findings.extend(java::deadlock(process));
        findings.extend(java::unmeasured(process));
        let locks = process.locks.iter().chain(&process.runtime_locks).chain(&process.futexes);
        findings.extend(locks.filter_map(|lock| of_lock(record, process, lock)));
        findings.extend(without_waits(record, process));
    }
    let kernel = account.locks.iter().filter(|lock| lock.pid == 0 && lock.is_of_kernel());
    let processes = &record.processes;
    findings.extend(kernel.filter_map(|lock| kernel::of_lock(lock, processes, account.busy_s)));
    findings.extend(
        record.processes.iter().flat_map(|process| kernel::sampled(process, account.busy_s)),
    );
    // Processes that wait for the lock of a file are woken by its owner.
    let file = processes::system_locks(record);
    let of_file_s = file.as_ref().map_or(0.0, |file| file.cost_s);
    findings.extend(processes::between(record).filter(|it| it.cost_s >= 2.0 * of_file_s));
    findings.extend(file);
    findings
}

/// Returns the problems that are visible without waits for a lock.
fn without_waits(record: &Record, process: &Process) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let locks = process.locks.iter().chain(&process.futexes);
    findings.extend(locks.filter_map(|lock| herd::of_lock(record, process, lock)));
    findings.extend(process.locks.iter().filter_map(|lock| lines::readers(process, lock)));
    findings.extend(lines::false_sharing(process));
    findings.extend(spin::loops(record, process));
    let attempts = spin::attempts(process);
    findings.extend(attempts.or_else(|| spin::polls(process)));
    findings.extend(lines::additions(process));
    findings
}

/// Returns why threads waited for a lock, if they did.
fn of_lock(record: &Record, process: &Process, lock: &Lock) -> Option<Finding> {
    let evidence = Evidence::new(process, lock).on_cpus(record.program.cpus);
    if evidence.wait_s <= 0.0 {
        return None;
    }
    if let Some(problem) = runtimes::interpreter(&evidence) {
        return Some(of_evidence(&evidence, problem, Vec::new()));
    }
    if !is_owned(lock) {
        return None;
    }
    if let Some((problem, gaps)) = java::monitors(&evidence) {
        return Some(of_evidence(&evidence, problem, gaps));
    }
    let hands_over = record.program.policy(lock.kind) == HANDOFF;
    let handed_over = if hands_over { wait::handed_over(&evidence) } else { None };
    let problem = handed_over
        .or_else(|| wait::limit_of_processes(record, &evidence))
        .or_else(|| wait::asleep_in_processes(record, &evidence))
        .or_else(|| RULES.iter().find_map(|rule| rule(&evidence)))
        .or_else(|| wait::short(&evidence))
        .unwrap_or_else(|| wait::contended(&evidence));
    let gaps = gaps(&evidence, &problem);
    Some(of_evidence(&evidence, problem, gaps))
}

/// Returns what the record does not show about a lock.
fn gaps(evidence: &Evidence<'_>, problem: &Problem) -> Vec<Gap> {
    let holder = evidence.holder.as_ref();
    let is_known = holder.is_some_and(|holder| evidence.is_of_program(holder.place));
    let mut gaps = Vec::new();
    if is_of_python(evidence.lock) && !is_known {
        gaps.push(Gap::PythonFunction);
    }
    if let Problem::LongSection { off_unexplained: Some(_), .. } = problem {
        gaps.push(Gap::FewSamples { samples: holder.map_or(0, |holder| holder.samples) });
    }
    gaps
}

/// Returns the finding of waits for a lock.
fn of_evidence(evidence: &Evidence<'_>, problem: Problem, gaps: Vec<Gap>) -> Finding {
    let holder = evidence.holder.as_ref();
    Finding {
        second: second::second(evidence, &problem),
        pid: evidence.process.pid,
        lock: evidence.lock.name.clone(),
        origin: Some(evidence.lock.origin),
        subject: Some(evidence.subject()),
        waiters: Some(evidence.waiters()),
        owners: holder.map(crate::evidence::Holder::shares),
        share: evidence.share,
        weight: None,
        cost_s: evidence.wait_s,
        confidence: evidence.confidence(&problem),
        problem,
        gaps,
    }
}
