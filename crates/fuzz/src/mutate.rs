//! Inputs that are nearly right: files of a corpus with flipped bits, cut, doubled and spliced
//! parts, extreme numbers, and words of other files.

use crate::tokens::{NUMBERS, TOKENS};
use crate::tree;
use std::path::PathBuf;

/// Longest input, bytes. Readers limit the size of a file themselves; more than linear time shows
/// long before.
pub const LONGEST: usize = 1 << 16;

/// Most changes of one input.
const CHANGES: usize = 6;

/// A stream of inputs that a seed and a corpus determine.
#[derive(Debug)]
pub struct Mutator {
    state: u64,
    corpus: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    /// Returns inputs derived from `corpus`.
    ///
    /// # Panics
    /// If `corpus` is empty.
    pub fn new(seed: u64, corpus: Vec<(PathBuf, Vec<u8>)>) -> Self {
        assert!(!corpus.is_empty(), "a corpus has at least one input");
        let corpus: Vec<Vec<u8>> = corpus.into_iter().map(|(_, bytes)| bytes).collect();
        let mut words: Vec<Vec<u8>> = corpus
            .iter()
            .flat_map(|bytes| bytes.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_'))
            .filter(|word| !word.is_empty())
            .map(<[u8]>::to_vec)
            .chain(TOKENS.map(|token| token.as_bytes().to_vec()))
            .collect();
        words.sort();
        words.dedup();
        Self { state: seed, corpus, words }
    }

    /// The next input.
    pub fn input(&mut self) -> Vec<u8> {
        let from = self.below(self.corpus.len());
        let mut bytes = self.corpus[from].clone();
        let changes = 1 + self.below(CHANGES);
        // Half of the documents in JSON stay JSON: most others do not get past the parser.
        if self.below(2) == 0
            && let Some(changed) = tree::changed(&bytes, changes, &mut |limit| self.below(limit))
            && changed.len() <= LONGEST
        {
            return changed;
        }
        for _ in 0..changes {
            self.change(&mut bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let longest = 1 + (bytes.len() >> self.below(8));
        let end = at + self.below(longest.min(bytes.len() - at + 1));
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.next() as u8,
            2 => drop(bytes.drain(at..end)),
            3 => {
                drop(bytes.splice(at..at, bytes[at..end].repeat(1 + self.below(4))));
            }
            4 => {
                let other = self.below(self.corpus.len());
                let other = &self.corpus[other];
                let from = (at * 7).min(other.len());
                let part = other[from..(from + end - at).min(other.len())].to_vec();
                drop(bytes.splice(at..end, part));
            }
            5 => {
                let word = self.below(self.words.len());
                drop(bytes.splice(at..at, self.words[word].iter().copied()));
            }
            6 => bytes.truncate(end),
            _ => self.number(bytes, at),
        }
    }

    /// Replaces the next number with an extreme one.
    fn number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let text = NUMBERS[self.below(NUMBERS.len())].bytes();
        let digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let start = bytes[at..].iter().position(digit).map_or(at, |found| at + found);
        let length = bytes[start..].iter().take_while(|byte| digit(byte)).count();
        drop(bytes.splice(start..start + length, text));
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        convoy_machine::mix(self.state)
    }
}
