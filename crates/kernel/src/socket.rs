//! Connected pairs of sockets: Unix stream and datagram, TCP and UDP over loopback.
//!
//! A message takes the sender's socket lock, the receiver's queue lock and wakes the receiver. Over
//! loopback the whole way down and up the protocol layers runs in the sender's context; its cost is
//! one entry of the table.

use crate::base::Base;
use crate::costs::{Costs, spend};
use crate::lock_rules::LockRules;
use crate::locks::{Field, Guarded, Line};
use crate::sched::scheduler::Sched;
use crate::waiters::{Look, Waiters};
use convoy_machine::{Here, Sim};
use convoy_workload::Errno;
use convoy_workload::api::{SocketKind, Sys};
use core::cell::{Cell, RefCell};
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
/// Bytes that a queued message counts in addition to its data: its `sk_buff`.
const MESSAGE_HEAD: usize = 256;

/// One end of a connected pair.
pub(crate) struct Socket {
    kind: SocketKind,
    peer: RefCell<Weak<Socket>>,
    hot: Sim<SocketHot>,
    queue: RefCell<Queue>,
    closed: Cell<bool>,
}

struct SocketHot {
    /// The socket's own lock.
    lock: Line<Guarded<Field<u32>>>,
    /// The lock of the receive queue.
    receive: Line<Guarded<Field<u32>>>,
    /// What waits for arrivals and for room.
    waiters: Line<Waiters>,
}

/// Received messages that have not been read.
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

impl Socket {
    fn new(locks: LockRules, kind: SocketKind) -> Rc<Self> {
        let hot = SocketHot {
            lock: Line(locks.guarded(Field::new(0))),
            receive: Line(locks.guarded(Field::new(0))),
            waiters: Line(Waiters::new()),
        };
        let hot = Here::place(hot);
        hot.lock.name("socket lock");
        hot.receive.name("sk_receive_queue");
        Rc::new(Self {
            kind,
            peer: RefCell::default(),
            hot,
            queue: RefCell::default(),
            closed: Cell::new(false),
        })
    }

    pub(crate) fn pair(locks: LockRules, kind: SocketKind) -> (Rc<Self>, Rc<Self>) {
        let (a, b) = (Self::new(locks, kind), Self::new(locks, kind));
        a.peer.replace(Rc::downgrade(&b));
        b.peer.replace(Rc::downgrade(&a));
        (a, b)
    }

    /// `lock_sock` and `release_sock`.
    fn own(&self) {
        self.hot.lock.hold(|owner| owner.write(1));
    }

    /// The other end, unless it is closed.
    fn open_peer(&self) -> Option<Rc<Self>> {
        self.peer.borrow().upgrade().filter(|peer| !peer.closed.get())
    }

    /// Wakes the task that sleeps on the other end, if it is still open.
    fn wake_peer(&self, sched: &Sched) {
        let peer = self.peer.borrow().upgrade();
        if let Some(peer) = peer {
            peer.hot.waiters.wake(sched);
        }
    }
}

impl Socket {
    fn message_cost(&self, costs: &Costs) -> u64 {
        match self.kind {
            SocketKind::UnixStream | SocketKind::UnixDatagram => costs.socket_message_unix,
            SocketKind::Udp => costs.socket_message_udp,
            SocketKind::Tcp => costs.socket_message_tcp,
        }
    }

    /// `write` to a socket: one message. UDP drops it when the receiver is full, the others sleep.
    pub(crate) fn write(&self, base: &Base, buffer: &[u8]) -> Sys<usize> {
        if buffer.is_empty() && is_stream(self.kind) {
            return Ok(0);
        }
        let written = self.hot.waiters.wait(|| {
            let Some(peer) = self.open_peer() else { return Look::Done(Err(Errno::EPIPE)) };
            self.own();
            spend(self.message_cost(&base.costs) + base.costs.copy(buffer.len()));
            peer.hot.receive.hold(|received| {
                received.write(1);
                let room = peer.queue.borrow().has_room(self.kind, buffer.len());
                if room {
                    peer.queue.borrow_mut().push(buffer);
                } else if self.kind != SocketKind::Udp {
                    return self.hot.waiters.prepare();
                }
                Look::Done(Ok(buffer.len()))
            })
        })?;
        self.wake_peer(&base.sched);
        Ok(written)
    }

    /// `read` of a socket: bytes of a stream or one datagram; sleeps while there is none.
    pub(crate) fn read(&self, base: &Base, buffer: &mut [u8]) -> Sys<usize> {
        let read = self.hot.waiters.wait(|| {
            self.own();
            Here::pass(base.costs.socket_read);
            self.hot.receive.hold(|received| {
                received.write(0);
                if let Some(length) = self.queue.borrow_mut().pop(self.kind, buffer) {
                    return Look::Done(Ok(Some(length)));
                }
                let open = self.open_peer().is_some();
                if open { self.hot.waiters.prepare() } else { Look::Done(Ok(None)) }
            })
        })?;
        let Some(length) = read else { return Ok(0) };
        spend(base.costs.copy(length));
        self.wake_peer(&base.sched);
        Ok(length)
    }

    /// Closes a socket.
    pub(crate) fn close(&self, base: &Base) {
        self.own();
        self.closed.set(true);
        let peer = self.peer.borrow().upgrade();
        if let Some(peer) = peer {
            // The peer decides to sleep under this lock: it either sees the end or is woken.
            peer.hot.receive.hold(|_| ());
            peer.hot.waiters.wake(&base.sched);
        }
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
