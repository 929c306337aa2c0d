//! Go's mutex and block profiles in the format of `go tool pprof`: a message of protocol buffers,
//! compressed with gzip. A mutex profile has the stack of the goroutine that *releases* the lock,
//! with the time that others waited for it. A block profile has the stack of the waiting goroutine.

use std::collections::BTreeMap;

use super::waits::Waits;
use crate::record::causes::Cause;
use crate::record::origin::Origin;
use crate::record::{Kind, Times};

/// First bytes of gzip data.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Maximum size of a profile in bytes.
const MOST: usize = 256 << 20;

/// Returns the decompressed bytes of a profile, or `None` if `bytes` are not compressed like a
/// profile.
pub(super) fn unpacked(bytes: &[u8]) -> Option<Vec<u8>> {
    /// Flags of the parts that may follow the header: checksum, extra field, name, comment.
    const CHECKSUM: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let flags = *bytes.get(3).filter(|_| bytes.starts_with(&GZIP))?;
    let mut at = 10;
    if flags & EXTRA != 0 {
        at += 2 + usize::from(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            at += bytes.get(at..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    at += if flags & CHECKSUM != 0 { 2 } else { 0 };
    miniz_oxide::inflate::decompress_to_vec_with_limit(bytes.get(at..)?, MOST).ok()
}

/// Value of a field of a message: a number or bytes.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Fields of a message, up to the first invalid one.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.number()?;
        let value = match key & 7 {
            0 => Value::Number(self.number()?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = self.number()?;
                Value::Bytes(self.take(usize::try_from(length).ok()?)?)
            }
            5 => Value::Number(u32::from_le_bytes(self.take(4)?.try_into().ok()?).into()),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

/// Adds the numbers of a field, which may be packed.
fn numbers(all: &mut Vec<u64>, value: Value<'_>) {
    match value {
        Value::Number(number) => all.push(number),
        Value::Bytes(bytes) => {
            let mut fields = Fields(bytes);
            all.extend(std::iter::from_fn(|| fields.number()));
        }
    }
}

/// A profile: types of values, stacks and names.
#[derive(Default)]
struct Profile {
    /// Types of the values, as indices of their names.
    kinds: Vec<u64>,
    /// Locations, innermost first, and values of each sample.
    samples: Vec<(Vec<u64>, Vec<u64>)>,
    /// Function and line of each frame of a location, innermost first.
    locations: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Name and file of each function, as indices of strings.
    functions: BTreeMap<u64, (u64, u64)>,
    strings: Vec<String>,
    /// Duration in nanoseconds.
    duration: u64,
}

impl Profile {
    fn read(bytes: &[u8]) -> Self {
        let mut profile = Self::default();
        for (field, value) in Fields(bytes) {
            match (field, value) {
                (1, Value::Bytes(bytes)) => profile.kinds.push(first(bytes, 1)),
                (2, Value::Bytes(bytes)) => {
                    let (mut places, mut values) = (Vec::new(), Vec::new());
                    for (field, value) in Fields(bytes) {
                        match field {
                            1 => numbers(&mut places, value),
                            2 => numbers(&mut values, value),
                            _ => {}
                        }
                    }
                    profile.samples.push((places, values));
                }
                (4, Value::Bytes(bytes)) => {
                    let lines = Fields(bytes).filter_map(|(field, value)| match (field, value) {
                        (4, Value::Bytes(line)) => Some((first(line, 1), first(line, 2))),
                        _ => None,
                    });
                    profile.locations.insert(first(bytes, 1), lines.collect());
                }
                (5, Value::Bytes(bytes)) => {
                    let names = (first(bytes, 2), first(bytes, 4));
                    profile.functions.insert(first(bytes, 1), names);
                }
                (6, Value::Bytes(bytes)) => {
                    profile.strings.push(String::from_utf8_lossy(bytes).into_owned());
                }
                (10, Value::Number(duration)) => profile.duration = duration,
                _ => {}
            }
        }
        profile
    }

    fn text(&self, number: u64) -> &str {
        self.strings.get(number as usize).map_or("", String::as_str)
    }

    fn value(&self, values: &[u64], name: &str) -> Option<u64> {
        let at = self.kinds.iter().position(|kind| self.text(*kind) == name)?;
        values.get(at).copied()
    }

    /// Returns the functions of a stack with their places, innermost first.
    fn frames(&self, places: &[u64]) -> Vec<(String, String)> {
        let lines = places.iter().filter_map(|place| self.locations.get(place)).flatten();
        let frame = |(function, line): &(u64, u64)| {
            let (name, file) = self.functions.get(function).copied().unwrap_or_default();
            let file = self.text(file).rsplit('/').next().unwrap_or_default();
            let name = self.text(name).to_owned();
            let place = format!("{name} ({file}:{line})");
            (name, place)
        };
        lines.map(frame).collect()
    }
}

/// Returns the first number in a field, or 0.
fn first(bytes: &[u8], field: u64) -> u64 {
    let mut found = Fields(bytes).filter_map(|(known, value)| match value {
        Value::Number(number) if known == field => Some(number),
        _ => None,
    });
    found.next().unwrap_or(0)
}

/// Returns whether decompressed bytes are a profile of waits.
pub(super) fn is_profile(bytes: &[u8]) -> bool {
    let profile = Profile::read(bytes);
    profile.kinds.iter().any(|kind| profile.text(*kind) == "delay")
}

pub(super) fn read(bytes: &[u8], waits: &mut Waits) {
    let profile = Profile::read(bytes);
    waits.seconds = profile.duration as f64 / 1e9;
    let mut holders = false;
    for (places, values) in &profile.samples {
        let delay = profile.value(values, "delay").unwrap_or(0) as f64 / 1e9;
        let count = profile.value(values, "contentions").unwrap_or(0);
        let frames = profile.frames(places);
        let Some((leaf, _)) = frames.first() else { continue };
        let is_holder = leaf.ends_with("nlock") || leaf.contains("unlock");
        let kind = if leaf.contains("RW") { Kind::Rwlock } else { Kind::Mutex };
        let is_lock = is_holder || leaf.contains("ock");
        let caller = frames.iter().find(|(name, _)| !is_of_go(name));
        let Some((_, place)) = caller.or(frames.first()) else { continue };
        holders |= is_holder;
        let times = Times::summed(count, delay, 0.0);
        let (kind, act) = if is_lock { (kind, "lock") } else { (Kind::Condition, "wait") };
        let begin = if is_lock { crate::LOCK_OF } else { "condition of " };
        let name = [begin, place].concat();
        let waiting = if is_holder { "" } else { place.as_str() };
        let site = waits.site(&name, (kind, Origin::Go), waiting, act);
        site.count += count;
        site.contended += if is_lock { count } else { 0 };
        site.wait.add(&times);
        if is_holder {
            waits.causes.push(Cause {
                lock: name,
                kind,
                act: act.to_owned(),
                held_at: place.clone(),
                held_act: act.to_owned(),
                count,
                wait_s: delay,
                ..Cause::default()
            });
        }
    }
    if holders {
        waits.notes.push(
            "A mutex profile of Go names the places that release locks, with the time that others \
             waited; a block profile names those that wait."
                .to_owned(),
        );
    }
}

/// Returns whether a function belongs to Go itself and acquires locks for its callers.
pub(crate) fn is_of_go(name: &str) -> bool {
    ["sync.", "runtime.", "internal/sync.", "internal/poll."]
        .iter()
        .any(|begin| name.starts_with(begin))
}
