//! How the words of the file are accessed: as atomics by the process that writes them, as integers
//! by its reader.

use alloc::boxed::Box;
use alloc::vec;
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Types of the words in a part of the file.
pub trait Access {
    /// A word of 64 bits.
    type Word;
    /// A half of a word.
    type Half;
}

/// Words of the mapped file, which other threads and the reader access at any time.
#[derive(Clone, Copy, Debug)]
pub struct Mapped;

impl Access for Mapped {
    type Word = AtomicU64;
    type Half = AtomicU32;
}

/// Words that were read from the file.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Access for Plain {
    type Word = u64;
    type Half = u32;
}

/// A part of the file that can be read.
///
/// # Safety
/// The type consists of integers, without padding, and is aligned to words.
pub unsafe trait Part: Sized {
    /// Returns a part whose words are 0.
    #[expect(clippy::unnecessary_box_returns, reason = "a slot is too large for the stack")]
    fn zeroed() -> Box<Self> {
        const { assert!(align_of::<Self>() == align_of::<u64>()) };
        let words = vec![0_u64; size_of::<Self>() / size_of::<u64>()].into_boxed_slice();
        // SAFETY: as many words, with the alignment of words; integers may be zero.
        unsafe { Box::from_raw(Box::into_raw(words).cast::<Self>()) }
    }

    /// Returns the bytes, into which the file is read.
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: integers consist of bytes, any values of which are valid.
        unsafe { core::slice::from_raw_parts_mut((&raw mut *self).cast(), size_of::<Self>()) }
    }
}

// SAFETY: an integer.
unsafe impl Part for u64 {}

// SAFETY: elements of an array have no padding between them.
unsafe impl<T: Part, const N: usize> Part for [T; N] {}

/// Declares structures, whose fields are words or pairs of halves, as parts of the file.
macro_rules! parts {
    ($($part:ident)*) => {$(
        // SAFETY: `repr(C)`, and its fields have the size and alignment of words.
        unsafe impl crate::memory::Part for $part<crate::memory::Plain> {}
    )*};
}
pub(crate) use parts;
