//! Families of locks: the elements of one array, or locks that were allocated for one purpose. A
//! family has one name, so that its locks are one lock with several instances.
//!
//! Locks of one kind are a family if mostly the same places acquire them. Those in a variable must
//! also be at a constant distance. Two members of a structure are acquired at different places.

use std::collections::BTreeMap;

use crate::names::{Names, named_after, with_offset};
use crate::record::element::Element;
use crate::record::{Kind, Lock, total};

/// A lock, as far as its name depends on it.
struct Member {
    address: u64,
    /// The variable that contains it, and its offset there.
    variable: Option<(String, u64)>,
    kind: Kind,
    /// Minimum size in bytes.
    size: u64,
    is_lock: bool,
    /// Number of calls and wait time in seconds, by place.
    places: BTreeMap<String, (u64, f64)>,
}

impl Member {
    fn new(address: u64, lock: &Lock, names: &Names, is_word: bool) -> Self {
        let variable = names.symbol(address);
        let mut places = BTreeMap::new();
        for site in &lock.sites {
            add_to(&mut places, &site.place, (site.count, site.wait.total_s));
        }
        Self {
            address,
            variable: variable.or_else(|| Some((names.variable(address)?, 0))),
            kind: lock.kind,
            size: if is_word { size_of::<u32>() as u64 } else { size(lock.kind) },
            is_lock: lock.is_lock(),
            places,
        }
    }
}

/// Maximum number of families with which a lock is compared.
const COMPARED: usize = 64;

/// Locks of one family, by their indices.
struct Family {
    members: Vec<usize>,
    places: BTreeMap<String, (u64, f64)>,
}

/// Names the locks at these addresses that have no name yet. `is_word` says whether they are words
/// of futex(2), which are smaller than libc's locks.
pub(crate) fn name(locks: &mut [(u64, Lock)], names: &Names, is_word: bool) {
    let mut unnamed: Vec<&mut (u64, Lock)> =
        locks.iter_mut().filter(|(_, lock)| lock.name.is_empty()).collect();
    let members = unnamed.iter().map(|lock| Member::new(lock.0, &lock.1, names, is_word));
    let members: Vec<Member> = members.collect();
    let found = called(&members);
    for ((lock, member), name) in unnamed.iter_mut().zip(members).zip(found) {
        let (_, lock) = lock;
        lock.name = name;
        let variable = member.variable.map(|(name, offset)| with_offset(&name, offset));
        lock.elements.push(Element {
            name: variable.unwrap_or_default(),
            count: lock.count(),
            contended: lock.contended(),
            wait_s: lock.wait_s(),
            max_s: lock.all(|site| &site.wait).max_s,
        });
    }
}

/// Returns the name of each lock.
fn called(members: &[Member]) -> Vec<String> {
    let mut groups: BTreeMap<(Option<&str>, Kind, bool), Vec<Family>> = BTreeMap::new();
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| members[*index].address);
    for index in order {
        let member = &members[index];
        let variable = member.variable.as_ref().map(|(name, _)| name.as_str());
        let families = groups.entry((variable, member.kind, member.is_lock)).or_default();
        // A condition that is in no variable has the purpose of its longest wait: runtimes wait on
        // one of each thread for everything.
        let has_owner = [Kind::Mutex, Kind::Rwlock, Kind::Spinlock].contains(&member.kind);
        let compared = if variable.is_some() || has_owner { COMPARED } else { 0 };
        let mut near = families.iter_mut().rev().take(compared);
        match near.find(|family| are_alike(&family.places, &member.places)) {
            Some(family) => {
                family.members.push(index);
                add(&mut family.places, &member.places);
            }
            None => {
                families.push(Family { members: vec![index], places: member.places.clone() });
            }
        }
    }
    let mut names = vec![String::new(); members.len()];
    let mut used: BTreeMap<&str, usize> = BTreeMap::new();
    for ((variable, ..), families) in &groups {
        *used.entry(variable.unwrap_or_default()).or_default() += families.len();
    }
    for ((variable, _, is_lock), families) in &groups {
        for Family { members: indices, places } in families {
            let Some(variable) = variable else {
                let name = named_after(longest(places), *is_lock);
                for index in indices {
                    names[*index].clone_from(&name);
                }
                continue;
            };
            let offsets = indices.iter().filter_map(|index| members[*index].variable.as_ref());
            let offsets: Vec<u64> = offsets.map(|(_, offset)| *offset).collect();
            let is_array = offsets.len() > 1 && stride(&offsets) >= members[indices[0]].size;
            for (index, offset) in indices.iter().zip(&offsets) {
                names[*index] = match is_array {
                    true if used[variable] == 1 => (*variable).to_owned(),
                    true => with_offset(variable, offsets[0]),
                    false => with_offset(variable, *offset),
                };
            }
        }
    }
    names
}

/// Returns whether at least half of the calls with each of two locks are at places that also use
/// the other one.
fn are_alike(first: &BTreeMap<String, (u64, f64)>, second: &BTreeMap<String, (u64, f64)>) -> bool {
    fn shared(
        places: &BTreeMap<String, (u64, f64)>,
        others: &BTreeMap<String, (u64, f64)>,
    ) -> bool {
        let both = places.iter().filter(|(place, _)| others.contains_key(*place));
        let both = total(both.map(|(_, (count, _))| *count));
        both > 0 && both >= total(places.values().map(|(count, _)| *count)).div_ceil(2)
    }
    shared(first, second) && shared(second, first)
}

fn add(sums: &mut BTreeMap<String, (u64, f64)>, places: &BTreeMap<String, (u64, f64)>) {
    for (place, sum) in places {
        add_to(sums, place, *sum);
    }
}

fn add_to(sums: &mut BTreeMap<String, (u64, f64)>, place: &str, (count, wait_s): (u64, f64)) {
    let sum = sums.entry(place.to_owned()).or_default();
    *sum = (total([sum.0, count]), sum.1 + wait_s);
}

/// Returns the place with the longest wait. Between equal waits, the number of calls decides.
fn longest(places: &BTreeMap<String, (u64, f64)>) -> &str {
    let longest = places.iter().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    longest.map_or("", |(place, _)| place)
}

/// Returns the greatest common divisor of the distances between ascending offsets.
fn stride(offsets: &[u64]) -> u64 {
    fn divisor(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    offsets.windows(2).fold(0, |stride, two| divisor(stride, two[1] - two[0]))
}

/// Returns the size of a lock in bytes.
fn size(kind: Kind) -> u64 {
    match kind {
        Kind::Mutex => 40,
        Kind::Rwlock => 56,
        Kind::Condition => 48,
        Kind::Semaphore | Kind::Barrier => 32,
        Kind::Spinlock | Kind::Futex => size_of::<u32>() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(variable: &str, offset: u64, places: &[(&str, u64)]) -> Member {
        let places = places.iter().map(|(place, count)| ((*place).to_owned(), (*count, 0.0)));
        Member {
            address: 0x1000 + offset,
            variable: (!variable.is_empty()).then(|| (variable.to_owned(), offset)),
            kind: Kind::Mutex,
            size: size(Kind::Mutex),
            is_lock: true,
            places: places.collect(),
        }
    }

    #[test]
    fn elements_of_an_array_have_the_name_of_the_array() {
        fn journal(offset: u64) -> Member {
            member("journals", offset, &[("note", 90), ("main", 1)])
        }
        let split = [journal(0), journal(0x30), journal(0xc0)];
        assert_eq!(called(&split), ["journals"; 3]);
        // The elements that a program uses need not include the first.
        assert_eq!(called(&split[1..]), ["journals"; 2]);
        assert_eq!(called(&split[1..2]), ["journals+0x30"]);
        // No lock is so small.
        assert_eq!(called(&[journal(0), journal(8)]), ["journals", "journals+0x8"]);
        let uneven = [journal(0), journal(0x30), journal(0x68)];
        assert_eq!(called(&uneven), ["journals", "journals+0x30", "journals+0x68"]);
    }

    #[test]
    fn members_of_a_structure_keep_their_names() {
        fn init(place: &str) -> [(&str, u64); 2] {
            [("init", 1), (place, 500)]
        }
        let pool = [
            member("pool", 0, &init("push")),
            member("pool", 0x28, &init("log")),
            member("pool", 0x50, &init("stop")),
        ];
        assert_eq!(called(&pool), ["pool", "pool+0x28", "pool+0x50"]);
        // An array of structures has two families.
        let both: Vec<Member> = (0..4)
            .flat_map(|at| {
                let [first, second] = [("push", 9), ("log", 9)];
                [member("a", at * 0x60, &[first]), member("a", at * 0x60 + 0x28, &[second])]
            })
            .collect();
        assert_eq!(called(&both), ["a", "a+0x28", "a", "a+0x28", "a", "a+0x28", "a", "a+0x28"]);
    }

    #[test]
    fn kinds_and_variables_differ() {
        let mut lock = member("pool", 0x28, &[("push", 9)]);
        lock.kind = Kind::Rwlock;
        let locks =
            [member("pool", 0, &[("push", 9)]), lock, member("other", 0x100, &[("push", 9)])];
        assert_eq!(called(&locks), ["pool", "pool+0x28", "other+0x100"]);
    }

    #[test]
    fn allocated_locks_of_the_same_places_have_the_name_of_the_longest_wait() {
        let mut heap = [
            member("", 0, &[("append", 60), ("flush", 40)]),
            member("", 0x400, &[("append", 40), ("flush", 60)]),
            member("", 0x900, &[("log", 100)]),
        ];
        heap[1].places.insert("flush".to_owned(), (60, 2.0));
        assert_eq!(called(&heap), ["lock of flush", "lock of flush", "lock of log"]);
    }
}
