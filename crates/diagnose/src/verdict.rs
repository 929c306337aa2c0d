//! The diagnosis of a record: findings in order, and what the first sentence is about.

use convoy_record::{Record, Scheduler, threads};
use serde::Serialize;

use crate::account::Account;
use crate::finding::{Finding, Kind, MUCH};
use crate::gap::Gap;
use crate::problem::Problem;
use crate::quiet::{Quiet, quiet, unrecorded};
use crate::remark::{Remark, remarks};
use crate::rules;

/// Part of the waits that a cause has if they are said to be due to it.
const MOSTLY: f64 = 0.5;

/// The diagnosis of a recorded program.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The account of its waits.
    pub account: Account,
    /// All findings, the most expensive first.
    pub findings: Vec<Finding>,
    /// Further facts on the run and its most contended lock.
    pub remarks: Vec<Remark>,
    /// What the first sentence is about.
    pub verdict: Verdict,
}

/// What the first sentence about a record is about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The record is damaged.
    Damaged,
    /// The first relevant finding, by its index.
    Finding(usize),
    /// There is none: what threads did, or what is not known.
    Quiet(Box<Quiet>),
}

impl Diagnosis {
    /// Diagnoses a record.
    pub fn new(record: &Record) -> Self {
        let account = Account::new(record);
        let mut findings = rules::findings(record, &account);
        bound(&mut findings, record);
        weigh(&mut findings, record, account.busy_s);
        findings.sort_by(|a, b| {
            let [deadlock_a, deadlock_b] = [a, b].map(|finding| finding.kind() == Kind::Deadlock);
            deadlock_b.cmp(&deadlock_a).then(b.cost_s.total_cmp(&a.cost_s))
        });
        let (by_others, findings): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| is_by_others(finding, record));
        let relevant = by_others.iter().filter(|finding| finding.is_relevant());
        let by_others_s: f64 = relevant.map(|finding| finding.cost_s).sum();
        let is_mostly = by_others_s > 0.0 && by_others_s >= MOSTLY * account.wait_s;
        let other_cpus = is_mostly.then(|| record.program.other_cpus());
        let verdict = match findings.iter().position(Finding::is_relevant) {
            _ if !account.is_finite() => Verdict::Damaged,
            Some(index) if !may_hide(&findings[index], record, &account) => Verdict::Finding(index),
            _ => Verdict::Quiet(Box::new(Quiet { other_cpus, ..quiet(record, &account) })),
        };
        let remarks = remarks(record, &account);
        Self { account, findings, remarks, verdict }
    }

    /// Returns the finding that the first sentence is about, if it is about one.
    pub fn first(&self) -> Option<&Finding> {
        match self.verdict {
            Verdict::Finding(index) => self.findings.get(index),
            _ => None,
        }
    }

    /// Returns the relevant findings after the one that the first sentence is about.
    pub fn others(&self) -> impl Iterator<Item = &Finding> {
        let first = usize::from(matches!(self.verdict, Verdict::Finding(_)));
        self.findings.iter().filter(|finding| finding.is_relevant()).skip(first)
    }
}

/// Returns whether a finding costs little, and owners had no CPU while other programs used many: it
/// need not be a problem of the program.
fn is_by_others(finding: &Finding, record: &Record) -> bool {
    /// Minimum part of the CPUs that other programs used.
    const MOST: f64 = 0.25;
    matches!(finding.problem, Problem::OwnerPreempted { inversion: None, .. })
        && [finding.share, finding.weight].iter().flatten().any(|part| *part < MUCH)
        && record.program.other_cpus() >= MOST * f64::from(record.program.cpus.max(1))
}

/// Returns whether a finding costs so little that waits which were not recorded may cost more, or
/// less than waits for an unknown reason.
fn may_hide(finding: &Finding, record: &Record, account: &Account) -> bool {
    let is_minor =
        finding.kind() != Kind::Deadlock && finding.weight.is_none_or(|part| part < MUCH);
    match unrecorded(record, account) {
        None | Some(Gap::Tasks { scheduler: Scheduler::GoChannels }) => false,
        Some(Gap::Atomics { wait_s, .. }) => {
            finding.kind() != Kind::Deadlock && wait_s > finding.cost_s
        }
        Some(_) => is_minor,
    }
}

/// Limits the cost of each finding to the time of all threads that the record contains: an estimate
/// from prices or samples may be more.
fn bound(findings: &mut [Finding], record: &Record) {
    let times = record.processes.iter().map(|process| threads(process).ceil() * process.seconds);
    let most_s: f64 = times.sum();
    // Imports need not contain these times.
    for finding in findings.iter_mut().filter(|_| most_s > 0.0) {
        finding.cost_s = finding.cost_s.min(most_s);
    }
}

/// Sets the weight of each finding.
fn weigh(findings: &mut [Finding], record: &Record, busy_s: f64) {
    let cpu_s: f64 = record.processes.iter().map(|process| process.cpu_s).sum();
    for finding in findings {
        let time_s = if finding.kind().costs_cpu() { cpu_s } else { busy_s };
        let is_weighed = finding.share.is_some() && time_s > 0.0;
        finding.weight = is_weighed.then(|| (finding.cost_s / time_s).min(1.0));
    }
}
