//! Asynchronous transfers: `io_uring`, or Linux's older asynchronous I/O (`io_submit`) where
//! `io_uring` is missing or forbidden, as in many containers.

use std::os::fd::{AsRawFd as _, OwnedFd};

use convoy_workload::Errno;
use convoy_workload::api::{Sys, Transfers};
use io_uring::{IoUring, opcode, types};

/// Alignment and distance of the buffers, bytes; also the longest transfer.
const BUFFER: usize = 4096;

/// What carries asynchronous transfers on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring`.
    IoUring,
    /// `io_setup`, `io_submit`, `io_getevents`.
    Libaio,
}

impl Engine {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Libaio => "libaio system calls",
        }
    }

    /// The engine that this machine allows.
    ///
    /// # Errors
    /// The kernel's error if it allows none.
    pub fn available() -> Result<Self, Errno> {
        if IoUring::new(1).is_ok() {
            return Ok(Self::IoUring);
        }
        Context::new(1).map(|_| Self::Libaio)
    }
}

/// Does all transfers of `batch`, at most 4096 bytes each; after an error it starts no more and
/// waits for those in flight.
pub(crate) fn transfer(file: &OwnedFd, batch: &Transfers<'_>) -> Sys<()> {
    if batch.bytes > BUFFER || batch.depth == 0 {
        return Err(Errno::EINVAL);
    }
    match IoUring::new(batch.depth.next_power_of_two() as u32) {
        Ok(mut ring) => run(file, batch, &mut ring),
        Err(_) => run(file, batch, &mut Context::new(batch.depth as u32)?),
    }
}

/// One transfer on its way to an engine.
struct Request {
    slot: usize,
    fd: i32,
    buffer: *mut u8,
    bytes: usize,
    offset: u64,
    write: bool,
}

/// What both engines do.
trait Queue {
    /// Starts a transfer.
    ///
    /// # Safety
    /// The buffer must live and be left alone until [`Self::finished`] has named its slot.
    unsafe fn start(&mut self, request: &Request) -> Sys<()>;

    /// Waits until at least one transfer has ended; (slot, bytes or negative error) of each.
    fn finished(&mut self) -> Sys<Vec<(usize, i64)>>;
}

fn run(file: &OwnedFd, batch: &Transfers<'_>, queue: &mut impl Queue) -> Sys<()> {
    let mut memory = vec![b'a'; (batch.depth + 1) * BUFFER];
    let start = memory.as_ptr().align_offset(BUFFER);
    let mut free: Vec<usize> = (0..batch.depth).collect();
    let mut offsets = batch.offsets.iter();
    let mut outcome = Ok(());
    loop {
        while outcome.is_ok()
            && let Some(slot) = free.pop()
        {
            let Some(&offset) = offsets.next() else {
                free.push(slot);
                break;
            };
            let buffer = memory[start + slot * BUFFER..].as_mut_ptr();
            let (fd, bytes, write) = (file.as_raw_fd(), batch.bytes, batch.write);
            let request = Request { slot, fd, buffer, bytes, offset, write };
            // SAFETY: `memory` lives to the end of this function, which returns only when every
            // slot is free, and a slot's buffer is used by one transfer at a time.
            outcome = unsafe { queue.start(&request) };
            if outcome.is_err() {
                free.push(slot);
            }
        }
        if free.len() == batch.depth {
            return outcome;
        }
        for (slot, moved) in wait(queue) {
            free.push(slot);
            if moved != batch.bytes as i64 && outcome.is_ok() {
                outcome = Err(if moved < 0 { Errno(-moved as i32) } else { Errno::EIO });
            }
        }
    }
}

/// Waits, whatever it takes: the buffers may not go before the transfers have ended.
fn wait(queue: &mut impl Queue) -> Vec<(usize, i64)> {
    loop {
        match queue.finished() {
            Ok(ended) => return ended,
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            // Without the kernel's word the buffers are not ours again.
            Err(_) => super::exit_now(LOST),
        }
    }
}

/// Exit code of a process after its queue failed with transfers in flight.
const LOST: i32 = 102;

impl Queue for IoUring {
    unsafe fn start(&mut self, request: &Request) -> Sys<()> {
        let (fd, length) = (types::Fd(request.fd), request.bytes as u32);
        let entry = if request.write {
            opcode::Write::new(fd, request.buffer, length).offset(request.offset).build()
        } else {
            opcode::Read::new(fd, request.buffer, length).offset(request.offset).build()
        };
        let entry = entry.user_data(request.slot as u64);
        // SAFETY: the buffer's life is the contract of this function; the descriptor is open, and
        // the entry is copied.
        unsafe { self.submission().push(&entry) }.map_err(|_| Errno::EAGAIN)
    }

    fn finished(&mut self) -> Sys<Vec<(usize, i64)>> {
        self.submit_and_wait(1)
            .map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::EIO.0)))?;
        let ended = self.completion();
        Ok(ended.map(|entry| (entry.user_data() as usize, i64::from(entry.result()))).collect())
    }
}

/// `struct iocb` of the kernel's `aio_abi.h`.
#[repr(C)]
#[derive(Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    second: i64,
}

const _: () = assert!(size_of::<ControlBlock>() == 64 && size_of::<Event>() == 32);

/// `IOCB_CMD_PREAD` and `IOCB_CMD_PWRITE`.
const READ: u16 = 0;
const WRITE: u16 = 1;
/// Events per call.
const EVENTS: usize = 32;

/// A context of `io_setup`, destroyed on drop.
struct Context(libc::c_ulong);

impl Context {
    fn new(depth: u32) -> Sys<Self> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: `id` is writable and zero, as the call demands.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut id) };
        super::result(made as i32).map(|_| Self(id))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is ours; the call waits for what is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

impl Queue for Context {
    unsafe fn start(&mut self, request: &Request) -> Sys<()> {
        let mut block = ControlBlock {
            data: request.slot as u64,
            opcode: if request.write { WRITE } else { READ },
            fd: request.fd as u32,
            buffer: request.buffer as u64,
            bytes: request.bytes as u64,
            offset: request.offset as i64,
            ..ControlBlock::default()
        };
        let mut list = [&raw mut block];
        // SAFETY: the block is valid and copied by the call; the buffer's life is the contract of
        // this function.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1_i64, list.as_mut_ptr()) };
        super::result(done as i32).map(drop)
    }

    fn finished(&mut self) -> Sys<Vec<(usize, i64)>> {
        let mut events = [Event::default(); EVENTS];
        let none = std::ptr::null_mut::<libc::timespec>();
        let (call, most) = (libc::SYS_io_getevents, EVENTS as i64);
        // SAFETY: `events` is writable for that many events; no timeout is given.
        let count = unsafe { libc::syscall(call, self.0, 1_i64, most, events.as_mut_ptr(), none) };
        let count = super::result(count as i32)?;
        let ended = events[..count as usize].iter();
        Ok(ended.map(|event| (event.data as usize, event.result)).collect())
    }
}

#[cfg(test)]
#[path = "../../tests/common/skip.rs"]
mod common;

#[cfg(test)]
mod tests {
    use super::*;
    use common::skip;
    use std::io::{Read as _, Write as _};

    fn file() -> OwnedFd {
        let path = std::env::temp_dir().join(format!("convoy-aio-{}", std::process::id()));
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .expect("made");
        std::fs::remove_file(path).expect("there");
        file.write_all(&vec![b'0'; 100 * 1024]).expect("room");
        file.into()
    }

    /// Writes every other block and reads all, with both engines if the kernel has them.
    fn blocks_move(queue: &mut impl Queue) {
        let file = file();
        let offsets: Vec<u64> = (0..50).map(|block| block * 2048).collect();
        let batch = |offsets| Transfers { offsets, bytes: 1024, write: true, depth: 8 };
        run(&file, &batch(&offsets), queue).expect("written");
        let all: Vec<u64> = (0..100).map(|block| block * 1024).collect();
        run(&file, &Transfers { write: false, ..batch(&all) }, queue).expect("read");
        let past = [0, 200 * 1024];
        let short = run(&file, &Transfers { write: false, ..batch(&past) }, queue);
        assert_eq!(short, Err(Errno::EIO), "nothing is there to read");
        let mut text = Vec::new();
        let mut file = std::fs::File::from(file);
        std::io::Seek::rewind(&mut file).expect("a file");
        file.read_to_end(&mut text).expect("readable");
        for (block, bytes) in text.chunks(1024).enumerate() {
            let expected = if block % 2 == 0 { b'a' } else { b'0' };
            assert!(bytes.iter().all(|byte| *byte == expected), "block {block}");
        }
    }

    #[test]
    fn both_engines_move_every_block() {
        let (ring, context) = (IoUring::new(8), Context::new(8));
        // A container may refuse either.
        for (name, refused) in [("io_uring", ring.is_err()), ("io_submit", context.is_err())] {
            if refused {
                skip(&format!("{name}: this kernel refuses it"), ring.is_err() && context.is_err());
            }
        }
        if let Ok(mut ring) = ring {
            blocks_move(&mut ring);
        }
        if let Ok(mut context) = context {
            blocks_move(&mut context);
        }
    }

    #[test]
    fn an_error_ends_the_batch() {
        let file = std::fs::File::open("/proc/self/status").expect("proc");
        let file = OwnedFd::from(file);
        let batch = Transfers { offsets: &[0, 1024], bytes: 1024, write: true, depth: 2 };
        match Engine::available() {
            Ok(_) => assert_eq!(transfer(&file, &batch), Err(Errno::EBADF), "opened for reading"),
            Err(_) => skip("an asynchronous write that fails: no engine here", true),
        }
        assert_eq!(transfer(&file, &Transfers { depth: 0, ..batch }), Err(Errno::EINVAL));
    }
}
