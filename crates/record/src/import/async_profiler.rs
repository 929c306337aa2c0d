//! Stacks of Java threads that waited for locks, as `asprof -e lock -o collapsed --total` writes
//! them: the outermost method first, the class of the lock last, then nanoseconds.

use super::waits::{Refused, Waits, number};
use crate::record::origin::Origin;
use crate::record::{Kind, Times};

/// If the sum of the waits is less than this, in nanoseconds, the weights are numbers of waits.
const LEAST_NS: f64 = 1e6;
/// Suffixes of frames, which say how the method was compiled.
const KINDS: [&str; 6] = ["_[i]", "_[j]", "_[k]", "_[0]", "_[1]", "_[p]"];

/// Returns whether a line is such a stack: the class of a method is written with slashes and
/// separated from the method by a dot, and the class at the end is written with dots only.
pub(super) fn is_stack(line: &str) -> bool {
    let Some((stack, weight)) = line.trim().rsplit_once(' ') else { return false };
    let Some((callers, class)) = stack.rsplit_once(';') else { return false };
    let class = plain(class);
    let is_class = class.contains('.')
        && class.chars().all(|one| one.is_alphanumeric() || ".$_[]".contains(one))
        && class.rsplit('.').next().is_some_and(|name| name.starts_with(char::is_uppercase));
    is_class && callers.contains('.') && weight.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a frame without the suffix of its kind.
fn plain(frame: &str) -> &str {
    KINDS.iter().find_map(|kind| frame.strip_suffix(kind)).unwrap_or(frame)
}

pub(super) fn read(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    let mut sum_ns = 0.0;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        if !is_stack(line) {
            waits.pass_over(index + 1);
            continue;
        }
        let (stack, weight) = line.trim().rsplit_once(' ').unwrap_or_default();
        let weight_ns = number(weight, "weight").map_err(|reason| (index + 1, reason))?;
        sum_ns += weight_ns;
        let frames: Vec<&str> = stack.split(';').map(plain).collect();
        let Some((class, methods)) = frames.split_last() else { continue };
        let method = |name: &&&str| {
            // A native function does not have a class.
            name.contains('.') && !name.starts_with("java/") && !name.starts_with("jdk/")
        };
        let place = methods.iter().rev().find(method).or(methods.last());
        let place = place.map_or_else(String::new, |place| place.replace('/', "."));
        let is_monitor = !class.starts_with("java.util.concurrent.");
        let name =
            if is_monitor { format!("monitor of {class}") } else { format!("{class} in {place}") };
        let origin = if is_monitor { Origin::JavaMonitor } else { Origin::JavaLock };
        let site = waits.site(&name, (Kind::Mutex, origin), &place, "lock");
        site.wait.add(&Times::summed(0, weight_ns / 1e9, 0.0));
    }
    if sum_ns < LEAST_NS {
        let reason = "the weights are numbers of waits, not their time: record with --total";
        return Err((1, reason.to_owned()));
    }
    waits.notes.push(
        "Stacks of async-profiler have the time of waits, not their number or distribution."
            .to_owned(),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_with_a_class_at_the_end_are_told_from_others() {
        assert!(is_stack("java/lang/Thread.run;Broker.get;java.lang.Class_[i] 812000"));
        assert!(is_stack("Main.run;java.util.concurrent.locks.ReentrantLock$NonfairSync 5"));
        assert!(!is_stack("main;Cache::find(int);pthread_mutex_lock 12"));
        assert!(!is_stack("java/lang/Thread.run;java/util/Map.get 5"));
    }
}
