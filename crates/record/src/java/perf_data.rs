//! Counters that `HotSpot` publishes in a file of its own, `hsperfdata`.

use std::collections::BTreeMap;

/// Counters by name.
#[derive(Debug, Default)]
pub(crate) struct PerfData {
    numbers: BTreeMap<String, i64>,
    texts: BTreeMap<String, String>,
}

/// The first bytes of the file.
const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
/// Offsets in the header: whether it is complete, the place of the first entry, and their number.
const ACCESSIBLE: usize = 7;
const FIRST: usize = 24;
const COUNT: usize = 28;
/// Offsets in an entry: its length, the name, the length of a text, the type, and the value.
const NAME: usize = 4;
const LENGTH: usize = 8;
const TYPE: usize = 12;
const VALUE: usize = 16;

impl PerfData {
    /// Parses a file that was written on this machine. Returns `None` if it is not complete.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(&MAGIC) || *bytes.get(ACCESSIBLE)? != 1 {
            return None;
        }
        let mut found = Self::default();
        let mut at = word(bytes, FIRST)?;
        for _ in 0..word(bytes, COUNT)? {
            let entry = bytes.get(at..)?;
            let length = word(entry, 0).filter(|length| *length > VALUE)?;
            let name = text(entry.get(word(entry, NAME)?..)?);
            let value = entry.get(word(entry, VALUE)?..)?;
            match (entry.get(TYPE)?, word(entry, LENGTH)?) {
                (b'J', 0) => {
                    let number = i64::from_ne_bytes(value.get(..8)?.try_into().ok()?);
                    found.numbers.insert(name, number);
                }
                (b'B', bytes) => {
                    found.texts.insert(name, text(value.get(..bytes)?));
                }
                _ => {}
            }
            at += length;
        }
        Some(found)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// Returns the time that threads were stopped for the virtual machine, in seconds.
    pub(crate) fn stopped_s(&self) -> Option<f64> {
        let frequency = self.number("sun.os.hrt.frequency").filter(|hertz| *hertz > 0)?;
        let ticks =
            self.number("sun.rt.safepointTime")? + self.number("sun.rt.safepointSyncTime")?;
        Some(ticks as f64 / frequency as f64)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(i32::from_ne_bytes(bytes.get(at..)?.get(..4)?.try_into().ok()?)).ok()
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with one number and one text.
    fn file(accessible: u8) -> Vec<u8> {
        let mut bytes = vec![0; 32];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[ACCESSIBLE] = accessible;
        bytes[FIRST..COUNT].copy_from_slice(&32_i32.to_ne_bytes());
        bytes[COUNT..32].copy_from_slice(&2_i32.to_ne_bytes());
        for (name, length, kind, value) in
            [("a.b", 0, b'J', 7_i64.to_ne_bytes()), ("c", 4, b'B', *b"-Xrs\0\0\0\0")]
        {
            let mut entry = vec![0; 40];
            for (at, word) in [(0, 40), (NAME, 20), (LENGTH, length), (VALUE, 32)] {
                entry[at..at + 4].copy_from_slice(&i32::to_ne_bytes(word));
            }
            entry[TYPE] = kind;
            entry[20..20 + name.len()].copy_from_slice(name.as_bytes());
            entry[32..].copy_from_slice(&value);
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn counters_are_found_by_name_and_a_cut_file_has_none() {
        let found = PerfData::parse(&file(1)).expect("complete");
        assert_eq!((found.number("a.b"), found.text("c"), found.text("d")), (Some(7), "-Xrs", ""));
        assert!(PerfData::parse(&file(0)).is_none(), "the machine is still starting");
        for end in 0..file(1).len() - 8 {
            let _no_panic = PerfData::parse(&file(1)[..end]);
        }
        assert!(PerfData::parse(&file(1)[..60]).is_none());
    }
}
