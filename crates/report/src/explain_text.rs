//! An explained run in sentences. They follow from the figures; nothing here knows which kernel
//! ran.

use crate::format::{capital, fixed, significant};
use crate::share::{of, percent};
use crate::verdict::{LOSS, blamed, main_cause};
use convoy_explain::{Cause, Convoy, HopSummary, Idle, LockSummary, Share, State, Summary};

fn time(us: Option<f64>) -> String {
    match us {
        None => "an unknown time".to_owned(),
        Some(us) if us >= 1e3 => format!("{} ms", significant(us / 1e3)),
        Some(us) => format!("{} us", significant(us)),
    }
}

/// Returns the causes behind the verdict: the convoys, and the lock.
pub(crate) fn cause(summary: &Summary) -> Vec<String> {
    let all = summary.window_s * summary.cpus as f64;
    let mut text = Vec::new();
    if percent(of(&summary.states, State::Idle.name()), all) < LOSS {
        let user = percent(of(&summary.states, State::User.name()), all);
        text.push(format!("{} % of the time of the CPUs is user mode.", fixed(user, 1)));
        let spun = percent(of(&summary.states, State::Spin.name()), all);
        let lock = summary.spinning.first().filter(|_| spun >= LOSS);
        let lock = lock.and_then(|most| summary.locks.iter().find(|lock| lock.name == most.name));
        text.extend(lock.into_iter().flat_map(|lock| spun_for(lock, summary.window_s)));
        return text;
    }
    let main = main_cause(summary);
    if main == Idle::OwnerQueued {
        let stalls = &summary.stalls;
        let longest = summary.longest.as_ref().map_or(0.0, Convoy::ms);
        text.push(format!(
            "{} convoys take {} % of the run and {} CPU seconds of idle time; the longest lasts \
             {} ms.",
            stalls.convoys,
            fixed(percent(stalls.convoy_s, summary.window_s), 1),
            fixed(stalls.idle_cpu_s, 1),
            significant(longest)
        ));
    }
    if let Some(lock) = blamed(summary, main) {
        text.extend(blame(lock, summary.window_s));
    }
    text
}

/// How much a lock is owned: a share of the time, or, of several locks with one name, how many of
/// them at a time.
fn owned(lock: &LockSummary, window: f64) -> String {
    let share = share_of_time(lock, lock.owned_s, window);
    match lock.instances {
        0 | 1 => format!("it is owned {share}"),
        count => format!("of {count} locks with this name, {share} are owned on average"),
    }
}

/// `seconds` as a share of the time of one lock, or as a number of several locks.
fn share_of_time(lock: &LockSummary, seconds: f64, window: f64) -> String {
    if lock.instances > 1 {
        return fixed(seconds / window, 2);
    }
    format!("for {} % of the time", fixed(percent(seconds, window), 1))
}

fn blame(lock: &LockSummary, window: f64) -> Vec<String> {
    let taken = lock.acquisitions as f64;
    let mut text = vec![format!(
        "The lock is {}: {}, {} by a task on no CPU; up to {} tasks wait for it at once.",
        lock.name,
        owned(lock, window),
        share_of_time(lock, lock.owner_not_running_s, window),
        lock.waiters_max
    )];
    text.push(format!(
        "It is taken {} times, {} % of them after a wait and {} % by another task than before; \
         half of the owners hold it for less than {}.",
        lock.acquisitions,
        fixed(percent(lock.contended as f64, taken), 1),
        fixed(percent(lock.owner_changes as f64, taken), 1),
        time(lock.hold.p50_us)
    ));
    if lock.handoffs as f64 > taken / 2.0 {
        text.push(format!(
            "In {} % of the cases the releaser hands it to a waiter that is asleep. No task can \
             use the lock until that waiter runs, which takes {} in half of the cases and {} \
             in one of a hundred.",
            fixed(percent(lock.handoffs as f64, taken), 1),
            time(lock.handoff.p50_us),
            time(lock.handoff.p99_us)
        ));
    } else {
        text.push(format!(
            "{} % of the owners took it past waiters, {} % were handed it by the releaser.",
            fixed(percent(lock.stolen as f64, taken), 1),
            fixed(percent(lock.handoffs as f64, taken), 1)
        ));
    }
    text
}

/// Describes a lock for which CPUs spin: the tasks that acquire it, and their wait times.
fn spun_for(lock: &LockSummary, window: f64) -> Vec<String> {
    let taken = lock.acquisitions as f64;
    let again = lock.acquisitions.saturating_sub(lock.owner_changes);
    vec![
        format!(
            "They spin for {}: {}, and up to {} tasks wait for it at once.",
            lock.name,
            owned(lock, window),
            lock.waiters_max
        ),
        format!(
            "It is taken {} times, {} % of them after a wait; half of the holds are shorter than \
             {}, half of the waits that ended shorter than {}, and one in a hundred of those \
             longer than {}.",
            lock.acquisitions,
            fixed(percent(lock.contended as f64, taken), 1),
            time(lock.hold.p50_us),
            time(lock.wait.p50_us),
            time(lock.wait.p99_us)
        ),
        format!(
            "In {} % of the cases its last owner takes it again{}.",
            fixed(percent(again as f64, taken), 1),
            if percent(again as f64, taken) < 1.0 {
                ": it goes to those that wait"
            } else {
                ", past those that wait"
            }
        ),
    ]
}

/// A convoy, sentence by sentence.
pub(crate) fn narrate(convoy: &Convoy) -> Vec<String> {
    let lock = &convoy.lock;
    let doing =
        if convoy.doing.is_empty() { String::new() } else { format!(" ({})", convoy.doing) };
    let mut text = vec![format!(
        "It begins at {} s and lasts {} ms.",
        fixed(convoy.from_s, 3),
        significant(convoy.ms())
    )];
    text.push(format!("{}{doing} owns {lock} and is on no CPU.", capital(&convoy.owner)));
    text.push(match convoy.cause {
        Cause::GivenWhileAsleep => format!(
            "It was asleep, waiting for the lock, when {} handed it the lock and woke it.",
            convoy.giver.as_deref().unwrap_or("the last owner")
        ),
        Cause::Preempted => "It was preempted while it held the lock.".to_owned(),
        Cause::SleptWithLock => "It went to sleep while it held the lock.".to_owned(),
    });
    match convoy.queued {
        Some((after, cpu)) => {
            text.push(format!(
                "{} ms later it is on the run queue of CPU {cpu}.",
                significant(after)
            ));
            text.push(instead(convoy, cpu));
        }
        None => text.push("No task wakes it before the end of the convoy.".to_owned()),
    }
    text.push(format!(
        "At the beginning {} {lock}, later up to {}.",
        if convoy.waiters == 1 {
            "1 task waits for".to_owned()
        } else {
            format!("{} tasks wait for", convoy.waiters)
        },
        convoy.waiters_max
    ));
    text.push(idle_meanwhile(&convoy.idle_ms, convoy.ms()));
    text.push(format!(
        "After {} ms {} runs on CPU {}, and the lock moves on.",
        significant(convoy.ms()),
        convoy.owner,
        convoy.ran_on
    ));
    text
}

/// Describes the CPUs that idle during a convoy of `ms` milliseconds, from the idle time of each; a
/// long list is summarised by number and duration.
fn idle_meanwhile(idle_ms: &[f64], ms: f64) -> String {
    const MOST: usize = 8;
    let share = |idle: f64| fixed(percent(idle, ms), 0);
    let idle = || idle_ms.iter().enumerate().filter(|(_, idle)| **idle > 0.0);
    match idle().count() {
        0 => "Meanwhile no CPU idles.".to_owned(),
        2..=MOST if idle().all(|(_, idle)| share(*idle) == "100") => {
            let cpus: Vec<String> = idle().map(|(cpu, _)| cpu.to_string()).collect();
            let (last, first) = cpus.split_last().expect("two or more");
            format!("Meanwhile CPUs {} and {last} idle.", first.join(", "))
        }
        1..=MOST => {
            let each: Vec<String> =
                idle().map(|(cpu, idle)| format!("CPU {cpu} for {} %", share(*idle))).collect();
            format!("Meanwhile these CPUs idle: {}.", each.join(", "))
        }
        count => {
            let mean = share(idle().map(|(_, idle)| idle).sum::<f64>() / count as f64);
            let cpus = idle_ms.len();
            format!("Meanwhile {count} of {cpus} CPUs idle, for {mean} % of it on average.")
        }
    }
}

fn instead(convoy: &Convoy, cpu: usize) -> String {
    let who: Vec<String> = (convoy.instead.iter())
        .map(|(who, job, ms)| {
            let job = if job.is_empty() { String::new() } else { format!(" ({job})") };
            format!("{who}{job} for {} ms", significant(*ms))
        })
        .collect();
    let more = convoy.instead_tasks.saturating_sub(who.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    if who.is_empty() {
        format!("The task on CPU {cpu} keeps it until then.")
    } else {
        format!("That CPU runs {}{more} instead.", who.join(", "))
    }
}

pub(crate) fn chain(summary: &Summary) -> Vec<String> {
    let chain = &summary.chain;
    let all: f64 = chain.shares.iter().map(|share| share.seconds).sum();
    let mut shares: Vec<&Share> = chain.shares.iter().filter(|s| s.seconds > 0.0).collect();
    shares.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let shares: Vec<String> = (shares.iter())
        .map(|share| format!("{} % {}", fixed(percent(share.seconds, all), 1), share.name))
        .collect();
    vec![
        format!(
            "Which task waited for which, back from the end of the last one: {} wakeups, {} of \
             them for a lock, over {} s.",
            chain.hops,
            chain.lock_hops,
            fixed(all, 3)
        ),
        format!("Along it: {}.", shares.join(", ")),
        "Its last wakeups:".to_owned(),
    ]
}

pub(crate) fn hop(hop: &HopSummary) -> String {
    let what = if hop.lock { "the lock " } else { "" };
    format!("{} s  {} wakes {} for {what}{}", fixed(hop.at_s, 6), hop.from, hop.to, hop.waited_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cpus_are_listed_while_somebody_would_read_the_list() {
        assert_eq!(idle_meanwhile(&[0.0; 4], 2.0), "Meanwhile no CPU idles.");
        let two = "Meanwhile these CPUs idle: CPU 1 for 50 %, CPU 2 for 100 %.";
        assert_eq!(idle_meanwhile(&[0.0, 1.0, 2.0], 2.0), two);
        let all = "Meanwhile CPUs 0, 1 and 3 idle.";
        assert_eq!(idle_meanwhile(&[2.0, 2.0, 0.0, 2.0], 2.0), all);
        let many = "Meanwhile 79 of 80 CPUs idle, for 25 % of it on average.";
        let idle: Vec<f64> = (0..80).map(|cpu| if cpu == 7 { 0.0 } else { 0.5 }).collect();
        assert_eq!(idle_meanwhile(&idle, 2.0), many);
    }
}
