//! Folded stacks as a profile for `go tool pprof` and the programs that read its format: a message
//! of protocol buffers, compressed with gzip.
//!
//! Field numbers follow `proto/profile.proto` of github.com/google/pprof.

use std::collections::BTreeMap;

use prost::Message;

/// A type of values: its name and its unit, as indices of strings.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// A stack with its value.
#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Numbers of locations, innermost first.
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
}

/// A frame.
#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

/// A function, with its names and its file as numbers of strings.
#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    file: i64,
}

/// The profile.
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    types: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_ns: i64,
}

/// Numbers of texts, in order of first use. The first string of a profile is empty.
struct Strings(BTreeMap<String, i64>);

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        let next = self.0.len() as i64;
        *self.0.entry(text.to_owned()).or_insert(next)
    }

    fn list(self) -> Vec<String> {
        let mut texts: Vec<(String, i64)> = self.0.into_iter().collect();
        texts.sort_by_key(|(_, number)| *number);
        texts.into_iter().map(|(text, _)| text).collect()
    }
}

/// Splits `f (file.c:12)` into the function, its file and the line.
fn place(frame: &str) -> Option<(&str, &str, i64)> {
    let (name, rest) = frame.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, line) = rest.rsplit_once(':')?;
    Some((name, file, line.parse().ok()?))
}

/// Returns the profile of `stacks` (frames from the outermost on, microseconds) of a run of
/// `seconds`. Its only value is the delay in nanoseconds, as in the profiles of Go.
pub fn pprof(stacks: &[(Vec<String>, u64)], seconds: f64) -> Vec<u8> {
    let mut strings = Strings(BTreeMap::new());
    strings.number("");
    let types =
        vec![ValueType { kind: strings.number("delay"), unit: strings.number("nanoseconds") }];
    let mut frames: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut samples, mut locations, mut functions) = (Vec::new(), Vec::new(), Vec::new());
    for (stack, us) in stacks {
        let mut numbers = Vec::new();
        for frame in stack.iter().rev() {
            let next = frames.len() as u64 + 1;
            let id = *frames.entry(frame).or_insert_with(|| {
                let (name, file, line) = place(frame).unwrap_or((frame, "", 0));
                let [name, file] = [name, file].map(|text| strings.number(text));
                functions.push(Function { id: next, name, system_name: name, file });
                locations.push(Location { id: next, lines: vec![Line { function: next, line }] });
                next
            });
            numbers.push(id);
        }
        let ns = i64::try_from(us.saturating_mul(1000)).unwrap_or(i64::MAX);
        samples.push(Sample { locations: numbers, values: vec![ns] });
    }
    let duration_ns = (seconds.max(0.0) * 1e9) as i64;
    let strings = strings.list();
    gzip(&Profile { types, samples, locations, functions, strings, duration_ns }.encode_to_vec())
}

/// Compresses bytes as gzip does.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    const LEVEL: u8 = 6;
    // The magic number, the method deflate, no flags and no time, and an unknown system.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    file.extend(miniz_oxide::deflate::compress_to_vec(bytes, LEVEL));
    file.extend(crc32(bytes).to_le_bytes());
    file.extend((bytes.len() as u32).to_le_bytes());
    file
}

/// The checksum of gzip (RFC 1952).
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_profile_has_each_frame_once_and_the_innermost_first() {
        let stacks = [("serve", 2_000_000), ("poll", 500)].map(|(caller, us)| {
            (["main", caller, "take (queue.c:12)", "queue"].map(str::to_owned).to_vec(), us)
        });
        let bytes = pprof(&stacks, 2.5);
        let body = miniz_oxide::inflate::decompress_to_vec(&bytes[10..]).expect("deflate");
        let profile = Profile::decode(body.as_slice()).expect("a profile");
        assert_eq!((profile.samples.len(), profile.locations.len()), (2, 5));
        assert_eq!(profile.strings[0], "");
        let names = profile.samples[0].locations.iter().map(|location| {
            let line = profile.locations[*location as usize - 1].lines[0];
            let function = profile.functions[line.function as usize - 1];
            (profile.strings[function.name as usize].as_str(), line.line)
        });
        let expected = [("queue", 0), ("take", 12), ("serve", 0), ("main", 0)];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(profile.samples[1].values, [500_000]);
        assert_eq!(profile.duration_ns, 2_500_000_000);
    }
}
