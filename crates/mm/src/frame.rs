//! The state of each page: the kernel's `struct page`.

use convoy_sync::Platform;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;

/// Frames of 32 bytes that come into memory together, when the first of them is used: two KiB,
/// little enough for the stack of a simulated task.
const PLACED: usize = 64;

/// Bytes of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameSize {
    /// 32: two share a line, as in 32-bit kernels of 2.6.
    #[default]
    HalfLine,
    /// 64: a line each, as in 64-bit kernels.
    Line,
}

/// A variable that the zone lock or the lock of a set guards.
///
/// Relaxed accesses compile to plain ones; the lock orders them. Not a word of the platform,
/// because there are no waiters and no races on it: `touch` announces its use.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct Guarded(AtomicU32);

impl Guarded {
    pub(crate) const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }
}

/// State of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not the first frame of anything: inside a block, or in memory that was never handed out.
    Inner,
    /// The first frame of a free block of this order.
    Free(u32),
    /// On the list of a CPU.
    Listed,
    /// The first frame of an allocated block of this order.
    Taken(u32),
}

/// One frame: `struct page`, of 32 bytes or the first half of [`FrameSize::Line`].
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(crate) struct Frame {
    /// Neighbours on its list, see [`crate::list::List`].
    pub(crate) next: Guarded,
    pub(crate) prev: Guarded,
    state: Guarded,
}

/// Where the encodings of [`State`] begin.
const FREE: u32 = 0x100;
const LISTED: u32 = 0x200;
const TAKEN: u32 = 0x300;

impl State {
    #[inline]
    fn code(self) -> u32 {
        match self {
            Self::Inner => 0,
            Self::Free(order) => FREE | order,
            Self::Listed => LISTED,
            Self::Taken(order) => TAKEN | order,
        }
    }
}

impl Frame {
    pub(crate) fn state(&self) -> State {
        let code = self.state.get();
        match code & 0x300 {
            FREE => State::Free(code & 0xff),
            LISTED => State::Listed,
            TAKEN => State::Taken(code & 0xff),
            _ => State::Inner,
        }
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.set(state.code());
    }

    /// Goes from state `now` to `next`; the state if it is another one. With debug assertions this
    /// is one atomic step, so that if two threads free a page concurrently the second one panics.
    #[inline]
    pub(crate) fn become_if(&self, now: State, next: State) -> Result<(), State> {
        let (now, next) = (now.code(), next.code());
        let gone = if cfg!(debug_assertions) {
            self.state.0.compare_exchange(now, next, Relaxed, Relaxed).is_ok()
        } else {
            let gone = self.state.get() == now;
            if gone {
                self.state.set(next);
            }
            gone
        };
        if gone { Ok(()) } else { Err(self.state()) }
    }
}

/// Frames that come into memory together.
type Place<P> = OnceLock<<P as Platform>::Home<[Frame; PLACED]>>;

/// All frames of a zone, in the memory of the platform.
pub(crate) struct Frames<P: Platform> {
    places: Box<[Place<P>]>,
    count: u32,
    /// Frames of 32 bytes that one takes, as a power of two.
    shift: u32,
}

impl<P: Platform> Frames<P> {
    pub(crate) fn new(count: u32, size: FrameSize) -> Self {
        let shift = u32::from(size == FrameSize::Line);
        let places = ((count as usize) << shift).div_ceil(PLACED);
        Self { places: (0..places).map(|_| OnceLock::new()).collect(), count, shift }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The frame of that number, which is below [`Self::count`].
    #[inline]
    pub(crate) fn at(&self, number: u32) -> &Frame {
        let number = (number as usize) << self.shift;
        let place = self.places[number / PLACED]
            .get_or_init(|| P::place(core::array::from_fn(|_| Frame::default())));
        &place[number % PLACED]
    }
}
