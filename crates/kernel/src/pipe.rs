//! Pipes: 16 buffers of one page each under one mutex, with one wait queue for both ends.
//!
//! A write to a pipe without readers fails with `EPIPE`; the signal that usually precedes it is not
//! modelled.

use crate::base::Base;
use crate::costs::spend;
use crate::lock_rules::LockRules;
use crate::locks::{Field, Line, Mutex};
use crate::pages::PAGE;
use crate::waiters::{Look, Waiters};
use crate::zone::Use;
use convoy_machine::{Here, Sim};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Read as _;
use std::rc::Rc;

/// Buffers of a pipe.
const BUFFERS: usize = 16;
/// Bytes of a buffer.
const BUFFER: usize = PAGE as usize;

/// A pipe.
pub(crate) struct Pipe {
    hot: Sim<PipeHot>,
    ring: RefCell<Ring>,
    /// Frames of the buffers and of the spare page.
    frames: RefCell<Vec<u32>>,
    readers: Cell<u32>,
    writers: Cell<u32>,
}

#[repr(C)]
struct PipeHot {
    /// `i_mutex` of the pipe.
    mutex: Line<Mutex>,
    /// Number and place of the buffers in use.
    buffers: Line<Field<u32>>,
    /// What both ends sleep on.
    waiters: Line<Waiters>,
}

/// One buffer in use: bytes left, and where they end in the page.
struct Buffer {
    left: usize,
    end: usize,
}

#[derive(Default)]
struct Ring {
    bytes: VecDeque<u8>,
    buffers: VecDeque<Buffer>,
    /// A page that is kept for the next buffer.
    spare: bool,
}

impl Ring {
    /// Takes as much of `bytes` as there is room for; returns (bytes taken, pages needed).
    fn push(&mut self, bytes: &[u8]) -> (usize, u32) {
        let mut taken = 0;
        let odd = bytes.len() % BUFFER;
        if odd > 0
            && let Some(last) = self.buffers.back_mut()
            && last.end + odd <= BUFFER
        {
            last.end += odd;
            last.left += odd;
            taken = odd;
        }
        let mut pages = 0;
        while taken < bytes.len() && self.buffers.len() < BUFFERS {
            let length = (bytes.len() - taken).min(BUFFER);
            self.buffers.push_back(Buffer { left: length, end: length });
            taken += length;
            pages += u32::from(!core::mem::take(&mut self.spare));
        }
        self.bytes.extend(&bytes[..taken]);
        (taken, pages)
    }

    /// Moves bytes into `buffer`; returns (bytes moved, pages to free).
    fn pop(&mut self, buffer: &mut [u8]) -> (usize, u32) {
        let length = buffer.len().min(self.bytes.len());
        self.bytes.read_exact(&mut buffer[..length]).expect("that many bytes are there");
        let (mut left, mut pages) = (length, 0);
        while left > 0 {
            let first = self.buffers.front_mut().expect("every byte lies in a buffer");
            let part = left.min(first.left);
            first.left -= part;
            left -= part;
            if first.left == 0 {
                self.buffers.pop_front();
                pages += u32::from(core::mem::replace(&mut self.spare, true));
            }
        }
        (length, pages)
    }
}

impl Pipe {
    /// A pipe with `readers` and `writers` ends open.
    pub(crate) fn new(locks: LockRules, readers: u32, writers: u32) -> Rc<Self> {
        let hot = PipeHot {
            mutex: Line(locks.mutex()),
            buffers: Line(Field::new(0)),
            waiters: Line(Waiters::new()),
        };
        let hot = Here::place(hot);
        hot.mutex.name("pipe mutex");
        Rc::new(Self {
            hot,
            ring: RefCell::default(),
            frames: RefCell::default(),
            readers: Cell::new(readers),
            writers: Cell::new(writers),
        })
    }

    /// The pipe of a fifo that is not open.
    pub(crate) fn of_fifo(locks: LockRules) -> Rc<Self> {
        Self::new(locks, 0, 0)
    }

    /// Opens one end more; `ENXIO` for a write end without readers.
    pub(crate) fn open_end(&self, writer: bool) -> Sys<()> {
        if writer && self.readers.get() == 0 {
            return Err(Errno::ENXIO);
        }
        let end = if writer { &self.writers } else { &self.readers };
        end.set(end.get() + 1);
        Ok(())
    }

    /// Takes `pages` frames off the pipe.
    fn drop_frames(&self, pages: u32) -> Vec<u32> {
        let mut frames = self.frames.borrow_mut();
        let kept = frames.len().saturating_sub(pages as usize);
        frames.split_off(kept)
    }
}

impl Pipe {
    /// `read` of a pipe: returns the available bytes, or none at the end; sleeps while it is empty.
    pub(crate) fn read(&self, base: &Base, buffer: &mut [u8]) -> Sys<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.hot.waiters.wait(|| {
            base.under(&self.hot.mutex, || {
                Here::pass(base.costs.pipe);
                self.hot.buffers.read();
                let (length, pages) = self.ring.borrow_mut().pop(buffer);
                if length == 0 {
                    return if self.writers.get() == 0 {
                        Look::Done(Ok(0))
                    } else {
                        self.hot.waiters.prepare()
                    };
                }
                spend(base.costs.copy(length));
                self.hot.buffers.write(0);
                base.zones.free(&self.drop_frames(pages), &base.costs);
                self.hot.waiters.wake(&base.sched);
                Look::Done(Ok(length))
            })
        })
    }

    /// `write` to a pipe: all of `buffer`, sleeping while the pipe is full.
    pub(crate) fn write(&self, base: &Base, buffer: &[u8]) -> Sys<usize> {
        let mut written = 0;
        while written < buffer.len() {
            let rest = &buffer[written..];
            match self.hot.waiters.wait(|| self.write_some(base, rest)) {
                Ok(taken) => written += taken,
                // What was written before the error counts.
                Err(_) if written > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(written)
    }

    /// Writes as much of `buffer` as there is room for.
    fn write_some(&self, base: &Base, buffer: &[u8]) -> Look<usize> {
        base.under(&self.hot.mutex, || {
            Here::pass(base.costs.pipe);
            self.hot.buffers.read();
            if self.readers.get() == 0 {
                return Look::Done(Err(Errno::EPIPE));
            }
            let (taken, pages) = self.ring.borrow_mut().push(buffer);
            if taken == 0 {
                return self.hot.waiters.prepare();
            }
            match base.zones.pages(pages, Use::Programs, &base.costs) {
                Ok(frames) => self.frames.borrow_mut().extend(frames),
                Err(errno) => return Look::Done(Err(errno)),
            }
            spend(base.costs.copy(taken));
            self.hot.buffers.write(0);
            self.hot.waiters.wake(&base.sched);
            Look::Done(Ok(taken))
        })
    }

    /// Removes one end and wakes the others.
    pub(crate) fn close_end(&self, base: &Base, writer: bool) {
        base.under(&self.hot.mutex, || {
            let end = if writer { &self.writers } else { &self.readers };
            end.set(end.get() - 1);
            self.hot.waiters.wake(&base.sched);
        });
    }

    /// Frees the buffers when both ends are closed; returns whether they are.
    pub(crate) fn free(&self, base: &Base) -> bool {
        let closed = self.readers.get() == 0 && self.writers.get() == 0;
        if closed {
            self.ring.replace(Ring::default());
            base.zones.free(&self.frames.take(), &base.costs);
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_merges_fills_and_frees() {
        let mut ring = Ring::default();
        assert_eq!(ring.push(&[1; 1000]), (1000, 1));
        assert_eq!(ring.push(&[2; 3096]), (3096, 0), "merged into the first page");
        assert_eq!(ring.push(&[3; 1]), (1, 1), "the first page is full");
        // The odd 368 bytes go behind the one byte, and 14 buffers are left.
        assert_eq!(ring.push(&vec![4; 70_000]), (368 + 14 * BUFFER, 14));
        assert_eq!(ring.push(&[5; 4096]), (0, 0));
        let mut buffer = [0; 4097];
        assert_eq!(ring.pop(&mut buffer), (4097, 0), "the page is kept");
        assert_eq!((buffer[0], buffer[1000], buffer[4096]), (1, 2, 3));
        assert_eq!(ring.push(&[6; 8192]), (4096, 0), "into the kept page");
        let mut rest = vec![0; 16 * BUFFER];
        let (length, pages) = ring.pop(&mut rest);
        assert_eq!((length, pages), (368 + 15 * BUFFER, 15), "one of 16 pages is kept");
    }
}
