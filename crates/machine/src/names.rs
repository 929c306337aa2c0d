//! Names of locks: which stretch of simulated memory is called what.

use core::ops::Range;
use std::collections::BTreeMap;

/// Named stretches of simulated memory. The same memory has one name at a time.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By first address: bytes and name.
    stretches: BTreeMap<usize, (usize, &'static str)>,
}

impl Names {
    /// `bytes` bytes from `address` on are called `name` from now on. Returns the stretches that
    /// lay there before and were something else: they have been freed.
    pub fn add(&mut self, address: usize, bytes: usize, name: &'static str) -> Vec<Range<usize>> {
        if self.stretches.get(&address) == Some(&(bytes, name)) {
            return Vec::new();
        }
        let end = address + bytes;
        let mut freed = Vec::new();
        while let Some((&start, &(len, old))) = self.stretches.range(..end).next_back() {
            if start + len <= address {
                break;
            }
            self.stretches.remove(&start);
            if (start, len, old) != (address, bytes, name) {
                freed.push(start..start + len);
            }
        }
        self.stretches.insert(address, (bytes, name));
        freed
    }

    /// First address and name of the stretch that covers `address`.
    #[must_use]
    pub fn covering(&self, address: usize) -> Option<(usize, &'static str)> {
        let (&start, &(len, name)) = self.stretches.range(..=address).next_back()?;
        (address < start + len).then_some((start, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_gets_a_new_name() {
        let mut names = Names::default();
        assert!(names.add(64, 64, "a").is_empty());
        assert!(names.add(128, 64, "b").is_empty());
        assert_eq!(names.covering(100), Some((64, "a")));
        assert!(names.add(64, 64, "a").is_empty(), "the same again");
        assert_eq!(names.add(96, 40, "c"), [128..192, 64..128]);
        assert_eq!(names.covering(130), Some((96, "c")));
        assert_eq!((names.covering(64), names.covering(136)), (None, None));
    }
}
