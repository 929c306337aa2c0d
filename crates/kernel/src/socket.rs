//! Connected pairs of sockets: Unix stream and datagram, TCP and UDP over loopback.
//!
//! A message takes the sender's socket lock, the receiver's queue lock and wakes the receiver. Over
//! loopback the whole way down and up the protocol layers runs in the sender's context; its cost is
//! one entry of the table.

use crate::costs::spend;
use crate::locks::{Field, Line, Spin};
use crate::process::Process;
use crate::vfs::{File, Target};
use crate::world::World;
use convoy_machine::{Here, Sim, Smp, Word};
use convoy_sync::{Atomic, Platform, Sleep, Wake};
use convoy_workload::Errno;
use convoy_workload::api::{Fd, SocketKind, Sys};
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::SeqCst;
use std::collections::VecDeque;
use std::io::Read as _;
use std::rc::{Rc, Weak};

/// Send buffer of Unix sockets and receive buffer of UDP sockets, bytes (`wmem_default`,
/// `rmem_default`).
const UNIX_BYTES: usize = 110_592;
/// Receive buffer of TCP sockets, bytes (the middle value of `tcp_rmem`).
const TCP_BYTES: usize = 87_380;
/// Messages that a Unix datagram socket queues (`max_dgram_qlen`).
const DATAGRAMS: usize = 10;
/// What a queued message counts beyond its bytes: its `sk_buff`.
const MESSAGE_HEAD: usize = 256;

/// One end of a connected pair.
pub(crate) struct Socket {
    kind: SocketKind,
    peer: RefCell<Weak<Socket>>,
    hot: Sim<SocketHot>,
    queue: RefCell<Queue>,
    closed: Cell<bool>,
    /// Tasks that sleep on `event` or are about to.
    waiters: Cell<u32>,
}

struct SocketHot {
    /// The socket's own lock.
    lock: Line<(Spin, Field<u32>)>,
    /// The lock of the receive queue.
    receive: Line<(Spin, Field<u32>)>,
    /// Counts arrivals and room: what both directions sleep on.
    event: Line<Word<u32>>,
}

/// What was received and not read.
#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    messages: VecDeque<usize>,
}

impl Queue {
    fn has_room(&self, kind: SocketKind, length: usize) -> bool {
        let held = self.bytes.len() + self.messages.len() * MESSAGE_HEAD;
        match kind {
            SocketKind::UnixDatagram => self.messages.len() < DATAGRAMS,
            // A message longer than the buffer goes when the buffer is empty.
            SocketKind::UnixStream | SocketKind::Udp => held == 0 || held + length <= UNIX_BYTES,
            SocketKind::Tcp => held == 0 || held + length <= TCP_BYTES,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.messages.push_back(bytes.len());
    }

    fn drain_into(&mut self, buffer: &mut [u8]) {
        self.bytes.read_exact(buffer).expect("that many bytes are there");
    }

    fn pop(&mut self, kind: SocketKind, buffer: &mut [u8]) -> Option<usize> {
        let first = *self.messages.front()?;
        if is_stream(kind) {
            let length = buffer.len().min(self.bytes.len());
            self.drain_into(&mut buffer[..length]);
            let mut left = length;
            while let Some(message) = self.messages.front_mut()
                && left > 0
            {
                let part = left.min(*message);
                *message -= part;
                left -= part;
                if *message == 0 {
                    self.messages.pop_front();
                }
            }
            return Some(length);
        }
        // What does not fit of a datagram is lost.
        let length = buffer.len().min(first);
        self.drain_into(&mut buffer[..length]);
        self.bytes.drain(..first - length);
        self.messages.pop_front();
        Some(length)
    }
}

const fn is_stream(kind: SocketKind) -> bool {
    matches!(kind, SocketKind::UnixStream | SocketKind::Tcp)
}

/// What one look at a queue came to.
enum Look {
    Done(usize),
    Closed,
    /// Sleep until the event word differs from this.
    Sleep(u32),
}

impl Socket {
    fn new(kind: SocketKind) -> Rc<Self> {
        let hot = SocketHot {
            lock: Line((Spin::new(), Field::new(0))),
            receive: Line((Spin::new(), Field::new(0))),
            event: Line(Word::new(0)),
        };
        let hot = Here::place(hot);
        hot.lock.0.0.name("socket lock");
        hot.receive.0.0.name("sk_receive_queue");
        Rc::new(Self {
            kind,
            peer: RefCell::default(),
            hot,
            queue: RefCell::default(),
            closed: Cell::new(false),
            waiters: Cell::new(0),
        })
    }

    fn pair(kind: SocketKind) -> (Rc<Self>, Rc<Self>) {
        let (a, b) = (Self::new(kind), Self::new(kind));
        a.peer.replace(Rc::downgrade(&b));
        b.peer.replace(Rc::downgrade(&a));
        (a, b)
    }

    /// `lock_sock` and `release_sock`.
    fn own(&self) {
        let (lock, owner) = &self.hot.lock.0;
        lock.hold(|| owner.write(1));
    }

    /// Decides to sleep.
    fn prepare(&self) -> Look {
        self.waiters.set(self.waiters.get() + 1);
        Look::Sleep(self.hot.event.load(SeqCst))
    }

    fn sleep(&self, seen: u32) -> Sys<()> {
        let woken = Smp::wait(&self.hot.event, seen, Sleep::Interruptible, None);
        self.waiters.set(self.waiters.get() - 1);
        if woken == Wake::Interrupted { Err(Errno::EINTR) } else { Ok(()) }
    }
}

impl World {
    fn socket_wake(&self, socket: &Socket) {
        let waiters = socket.waiters.get();
        if waiters > 0 {
            socket.hot.event.fetch_add(1, SeqCst);
            self.sched.wake_sync(&socket.hot.event, waiters as usize);
        }
    }

    fn message_cost(&self, kind: SocketKind) -> u64 {
        match kind {
            SocketKind::UnixStream | SocketKind::UnixDatagram => self.costs.socket_message_unix,
            SocketKind::Udp => self.costs.socket_message_udp,
            SocketKind::Tcp => self.costs.socket_message_tcp,
        }
    }

    /// `write` to a socket: one message. UDP drops it when the receiver is full, the others sleep.
    pub(crate) fn socket_write(&self, socket: &Socket, buffer: &[u8]) -> Sys<usize> {
        if buffer.is_empty() && is_stream(socket.kind) {
            return Ok(0);
        }
        loop {
            let peer = socket.peer.borrow().upgrade().filter(|peer| !peer.closed.get());
            let Some(peer) = peer else { return Err(Errno::EPIPE) };
            socket.own();
            spend(self.message_cost(socket.kind) + self.costs.copy(buffer.len()));
            let (lock, received) = &peer.hot.receive.0;
            let look = lock.hold(|| {
                received.write(1);
                let room = peer.queue.borrow().has_room(socket.kind, buffer.len());
                if room {
                    peer.queue.borrow_mut().push(buffer);
                } else if socket.kind != SocketKind::Udp {
                    return socket.prepare();
                }
                Look::Done(buffer.len())
            });
            if let Look::Sleep(seen) = look {
                socket.sleep(seen)?;
            } else {
                self.socket_wake(&peer);
                return Ok(buffer.len());
            }
        }
    }

    /// `read` of a socket: bytes of a stream or one datagram; sleeps while there is none.
    pub(crate) fn socket_read(&self, socket: &Socket, buffer: &mut [u8]) -> Sys<usize> {
        loop {
            socket.own();
            Here::pass(self.costs.socket_read);
            let (lock, received) = &socket.hot.receive.0;
            let look = lock.hold(|| {
                received.write(0);
                if let Some(length) = socket.queue.borrow_mut().pop(socket.kind, buffer) {
                    return Look::Done(length);
                }
                let open = socket.peer.borrow().upgrade().is_some_and(|peer| !peer.closed.get());
                if open { socket.prepare() } else { Look::Closed }
            });
            match look {
                Look::Done(length) => {
                    spend(self.costs.copy(length));
                    let peer = socket.peer.borrow().upgrade();
                    if let Some(peer) = peer {
                        self.socket_wake(&peer);
                    }
                    return Ok(length);
                }
                Look::Closed => return Ok(0),
                Look::Sleep(seen) => socket.sleep(seen)?,
            }
        }
    }

    /// Closes a socket.
    pub(crate) fn socket_release(&self, socket: &Socket) {
        socket.own();
        socket.closed.set(true);
        let peer = socket.peer.borrow().upgrade();
        if let Some(peer) = peer {
            // The peer decides to sleep under this lock: it either sees the end or is woken.
            peer.hot.receive.0.0.hold(|| ());
            self.socket_wake(&peer);
        }
        self.anonymous_name();
        self.forget_anonymous_inode();
    }
}

impl Process {
    /// A connected pair.
    pub(crate) fn make_sockets(&self, kind: SocketKind) -> Sys<(Fd, Fd)> {
        let world = &*self.world;
        self.room_for(if kind == SocketKind::Tcp { 3 } else { 2 })?;
        // TCP also makes a listening socket, and closes it.
        let made = if kind == SocketKind::Tcp { 3 } else { 2 };
        for _ in 0..made {
            spend(world.costs.socket_create);
            world.make_anonymous_inode();
        }
        if kind == SocketKind::Tcp {
            spend(world.costs.tcp_connect);
            world.anonymous_name();
            world.forget_anonymous_inode();
        }
        let (a, b) = Socket::pair(kind);
        let file = |end| File::new(Target::Socket(end), true, true, 1);
        Ok((self.install(file(a)), self.install(file(b))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_join_messages_and_datagrams_keep_them_apart() {
        let mut queue = Queue::default();
        queue.push(b"abc");
        queue.push(b"defg");
        let mut buffer = [0; 5];
        assert_eq!(queue.pop(SocketKind::Tcp, &mut buffer), Some(5));
        assert_eq!((&buffer, queue.messages.len()), (b"abcde", 1));
        assert_eq!(queue.pop(SocketKind::Tcp, &mut buffer), Some(2));
        assert_eq!(queue.pop(SocketKind::Tcp, &mut buffer), None);
        queue.push(b"long one");
        queue.push(b"x");
        assert_eq!(queue.pop(SocketKind::Udp, &mut buffer), Some(5));
        assert_eq!(queue.pop(SocketKind::Udp, &mut buffer), Some(1), "the rest was lost");
        assert_eq!(buffer[0], b'x');
    }

    #[test]
    fn queues_have_the_limits_of_their_kind() {
        let mut queue = Queue::default();
        for _ in 0..DATAGRAMS {
            assert!(queue.has_room(SocketKind::UnixDatagram, 1));
            queue.push(b"m");
        }
        assert!(!queue.has_room(SocketKind::UnixDatagram, 1));
        assert!(queue.has_room(SocketKind::Tcp, 1000));
        queue.push(&vec![0; TCP_BYTES]);
        assert!(!queue.has_room(SocketKind::Tcp, 1));
    }
}
