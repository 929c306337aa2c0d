//! The diagnosis of a record: findings in order, and what the first sentence is about.

use convoy_record::{Origin, Record, Scheduler, threads};
use serde::Serialize;

use crate::account::Account;
use crate::cpus::CpusInUse;
use crate::finding::{Finding, Kind, MUCH};
use crate::gap::Gap;
use crate::problem::Problem;
use crate::quiet::{Quiet, java_waits, quiet, unrecorded};
use crate::remark::{Remark, remarks};
use crate::rules;
use crate::workers::BusyPool;

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
        name_what_openmp_spins_for(&mut findings);
        let in_use = CpusInUse::of(record);
        let (harmless, findings): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| is_harmless(finding, record, in_use));
        let relevant = harmless.iter().filter(|finding| finding.is_relevant());
        let harmless_s: f64 = relevant.map(|finding| finding.cost_s).sum();
        let is_mostly = harmless_s > 0.0 && harmless_s >= MOSTLY * account.wait_s;
        let in_use = is_mostly.then_some(in_use);
        let verdict = match findings.iter().position(Finding::is_relevant) {
            _ if !account.is_finite() => Verdict::Damaged,
            Some(index) if !may_hide(&findings[index], record, &account) => Verdict::Finding(index),
            _ => Verdict::Quiet(Box::new(Quiet { in_use, ..quiet(record, &account) })),
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

/// Moves the lock of OpenMP that threads sleep for before the spinning of OpenMP, which does not
/// show its reason.
fn name_what_openmp_spins_for(findings: &mut [Finding]) {
    /// Minimum cost of the sleeps, as a part of the cost of the spinning.
    const PART: f64 = 0.25;
    fn spins(finding: &Finding) -> bool {
        matches!(finding.problem, Problem::Spinning { is_of_openmp: true, .. })
    }
    let Some(spinning) = findings.iter().position(spins) else { return };
    let (pid, least_s) = (findings[spinning].pid, PART * findings[spinning].cost_s);
    let is_lock = |it: &Finding| it.pid == pid && it.origin == Some(Origin::OpenMp);
    let mut cheaper = findings[spinning..].iter();
    let lock = cheaper.position(|it| is_lock(it) && it.is_relevant() && it.cost_s >= least_s);
    if let Some(lock) = lock {
        findings[spinning..=spinning + lock].rotate_right(1);
    }
}

/// Returns whether a finding costs little since the CPUs were in use during the waits. Waits for
/// owners that lost their CPU to other programs need not be a problem of this one; and threads that
/// wait for an owner that runs while no CPU is idle would wait for a CPU otherwise.
fn is_harmless(finding: &Finding, record: &Record, in_use: CpusInUse) -> bool {
    /// Minimum part of the CPUs that other programs used.
    const OTHERS: f64 = 0.25;
    /// Maximum part of the time of the CPUs that was idle.
    const IDLE: f64 = 0.1;
    /// Maximum part of the time that each lock is held: another one may limit the program.
    const HELD: f64 = 0.5;
    /// Weight above which the changes of threads on the CPUs may cost more.
    const MOST: f64 = 2.0 * MUCH;
    let parts = [finding.share, finding.weight];
    let part = parts.into_iter().flatten().fold(f64::INFINITY, f64::min);
    let is_full = in_use.idle() < IDLE && held(finding, record).is_some_and(|part| part < HELD);
    match finding.problem {
        Problem::OwnerPreempted { inversion: None, .. } => {
            is_full && part < MOST || part < MUCH && in_use.others >= OTHERS * in_use.cpus
        }
        Problem::ShortSections { .. } => is_full && part < MOST,
        Problem::LongSection { .. } => is_full && part < MUCH,
        _ => false,
    }
}

/// Returns the part of the time that the lock of a finding was held, if all acquisitions were
/// recorded: for several locks, the one that is held longest.
fn held(finding: &Finding, record: &Record) -> Option<f64> {
    let processes = record.processes.iter().filter(|process| process.pid == finding.pid);
    let (process, lock) = processes
        .flat_map(|process| process.locks.iter().map(move |lock| (process, lock)))
        .find(|(_, lock)| lock.name == finding.lock)?;
    let (held_s, _) = lock.held_s(process.cpu_s);
    Some(held_s / lock.even_instances() / process.seconds.max(f64::MIN_POSITIVE))
}

/// Returns whether a finding costs so little that waits which were not recorded may cost more, or
/// less than waits for an unknown reason or for a pool of threads.
fn may_hide(finding: &Finding, record: &Record, account: &Account) -> bool {
    let is_minor =
        finding.kind() != Kind::Deadlock && finding.weight.is_none_or(|part| part < MUCH);
    if is_minor && BusyPool::of(record).is_some() {
        return true;
    }
    // The start of Java's virtual machine maps much memory.
    let is_of_kernel = finding.kind() == Kind::KernelLock;
    let java = || java_waits(record, account).filter(|_| is_minor && is_of_kernel);
    match unrecorded(record, account).or_else(java) {
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
