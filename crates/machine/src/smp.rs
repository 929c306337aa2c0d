//! `Smp`: the virtual machine as a lock's platform.

use crate::engine::{Lock, Until, engine};
use crate::memory::{LINE, Sim};
use crate::trace::Event;
use crate::word::Word;
use convoy_sync::{Access, Atomic, Integer, LockEvent, Monitor, Platform, Sleep, TaskId, Wake};
use core::cell::Cell;
use core::sync::atomic::Ordering;

/// The virtual machine of the calling thread. Every operation is sequentially consistent, and its
/// cost depends on the state of its cache line.
#[derive(Clone, Copy, Debug)]
pub struct Smp;

impl<T: Integer> Atomic<T> for Word<T> {
    fn new(value: T) -> Self {
        Self(Cell::new(value))
    }
    #[inline(always)]
    fn load(&self, _: Ordering) -> T {
        let engine = engine();
        engine.read(engine.offset(self));
        self.0.get()
    }
    #[inline(always)]
    fn peek(&self) -> T {
        self.0.get()
    }
    #[inline(always)]
    fn store(&self, value: T, _: Ordering) {
        let engine = engine();
        engine.write(engine.offset(self), false);
        self.0.set(value);
    }
    #[inline(always)]
    fn modify(&self, _: Ordering, change: impl Fn(T) -> T) -> T {
        let engine = engine();
        engine.write(engine.offset(self), true);
        let held = self.0.get();
        self.0.set(change(held));
        held
    }
}

impl Platform for Smp {
    type AtomicU8 = Word<u8>;
    type AtomicU32 = Word<u32>;
    type AtomicUsize = Word<usize>;
    type IrqFlags = ();
    type Home<T> = Sim<T>;

    fn now() -> u64 {
        engine().cpus.now() / 1000
    }

    fn spin_hint() {
        engine().cpus.pass(engine().spin_hint);
    }

    #[inline]
    fn spin_until(word: &Self::AtomicU32, done: impl Fn(u32) -> bool) -> u32 {
        let value = word.load(Ordering::Acquire);
        if done(value) {
            return value;
        }
        let engine = engine();
        engine.spin(engine.offset(word), Until::Says(&|| done(word.peek())));
        word.peek()
    }

    #[inline]
    fn spin_until_is(word: &Self::AtomicU32, value: u32) {
        if word.load(Ordering::Acquire) != value {
            let engine = engine();
            engine.spin(engine.offset(word), Until::Is(&word.0, value));
        }
    }

    fn wait(word: &Self::AtomicU32, expected: u32, sleep: Sleep, deadline: Option<u64>) -> Wake {
        let holds = || word.load(Ordering::Acquire) == expected;
        engine().os().wait(engine().offset(word), &holds, sleep, deadline)
    }

    fn wake(word: *const Self::AtomicU32, count: usize) {
        engine().os().wake(engine().offset(word), count);
    }

    fn signal_pending(sleep: Sleep) -> bool {
        engine().os().signal_pending(sleep)
    }

    #[inline]
    fn current() -> TaskId {
        engine().cpus.this().task.get()
    }

    #[inline]
    fn cpu() -> u32 {
        engine().cpus.running() as u32
    }

    fn on_cpu(task: TaskId) -> bool {
        let engine = engine();
        engine.spinners.ask(engine.cpus.this(), task);
        engine.os().on_cpu(task)
    }

    fn monitor<'a>(task: TaskId) -> Option<Monitor<'a, Word<u32>>> {
        let engine = engine();
        Some(engine.marked.of(task, &engine.region))
    }

    fn need_resched() -> bool {
        engine().os().need_resched()
    }

    fn runnable_here() -> u32 {
        engine().os().runnable_here()
    }

    fn active_tasks() -> u64 {
        engine().os().active_tasks()
    }

    fn cpus() -> u32 {
        engine().cpus.all.len() as u32
    }

    #[inline]
    fn package() -> u32 {
        let engine = engine();
        engine.lines.price.package_of(engine.cpus.core()) as u32
    }

    #[inline]
    fn irq_save() {
        engine().cpus.irq_disable();
    }

    #[inline]
    fn irq_restore((): ()) {
        engine().irq_enable();
    }

    #[inline]
    fn preempt_disable() {
        let cpu = engine().cpus.this();
        cpu.preempt_off.set(cpu.preempt_off.get() + 1);
    }

    #[inline]
    fn preempt_enable() {
        let engine = engine();
        let cpu = engine.cpus.this();
        cpu.preempt_off.set(cpu.preempt_off.get() - 1);
        if cpu.resched.get() && cpu.preempt_off.get() == 0 && !cpu.irqs_off() {
            engine.os().preempt_point();
        }
    }

    fn place<T>(value: T) -> Sim<T> {
        Sim::place(&engine().region, value)
    }

    #[inline(always)]
    fn touch<T: ?Sized>(start: &T, access: Access) {
        let engine = engine();
        let (offset, bytes) = (engine.offset(start), size_of_val(start));
        // Known to the compiler: an object that is no larger than its alignment lies on one line.
        if bytes <= align_of_val(start).min(LINE) {
            engine.touch_line(offset, access);
        } else {
            engine.touch(offset, bytes, access);
        }
    }

    #[inline(always)]
    fn event<T: ?Sized>(event: LockEvent, lock: &T, task: TaskId) {
        let engine = engine();
        let lock_at = engine.offset(lock);
        engine.tell(|| Event::Lock { event, lock: lock_at, task });
        let kind = core::any::type_name::<T>();
        engine.ledger.event(
            event,
            Lock { task, offset: lock_at, kind },
            engine.cpus.running(),
            engine.cpus.now(),
        );
        if cfg!(debug_assertions) {
            engine.check_rules(event, lock_at, task, kind);
        }
        if engine.watches.may_have(lock_at) {
            let current = engine.cpus.this().task.get();
            engine.watches.event(event, lock_at, task, current, engine.cpus.now());
        }
    }
}
