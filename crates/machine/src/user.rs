//! `User`: the virtual machine as the platform of a lock in user mode.
//!
//! Words are [`Smp`]'s, and cost the same. The differences are the limits of user space: it cannot
//! disable preemption or interrupts, sleeping and waking are system calls
//! ([`Os::user_wait`](crate::Os::user_wait), [`Os::user_wake`](crate::Os::user_wake)), and spinning
//! is a loop of `pause` that yields the CPU from time to time, as on the native platform. Looks of
//! that loop that find nothing new cost time and no event: the write of the word wakes the spinner.

use crate::engine::{Mode, Pace, Slice, Until, engine};
use crate::smp::Smp;
use crate::word::Word;
use convoy_sync::{
    Access, Atomic as _, LOOKS_BEFORE_YIELD, LOOKS_PER_CLOCK, LOOKS_PER_OTHER, LockEvent, Monitor,
    Platform, Sleep, TaskId, Turn, Wake,
};
use core::sync::atomic::Ordering;

/// User mode of the virtual machine of the calling thread; for tasks with CPU time accounted as
/// [`Mode::User`]. See the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct User;

/// Enters the kernel for `call`.
fn system<R>(call: impl FnOnce() -> R) -> R {
    let engine = engine();
    let mode = engine.set_mode(Mode::System);
    let result = call();
    // The task may be on another CPU now; the mode is the CPU's.
    engine.set_mode(mode);
    result
}

/// Polls `word` until `until` is over, and yields from time to time.
fn poll_and_yield(word: &Word<u32>, until: Until<'_>) {
    let engine = engine();
    while !engine.poll(engine.offset(word), until, Pace::Stops(LOOKS_BEFORE_YIELD)) {
        User::yield_now();
    }
}

impl User {
    /// Lets others run first (`sched_yield`).
    pub fn yield_now() {
        // Threads that poll and yield are no livelock of the machine, whatever they wait for.
        let engine = engine();
        engine.watchdog.progress(engine.cpus.now());
        system(|| engine.os().user_yield());
    }
}

impl Platform for User {
    type AtomicU8 = Word<u8>;
    type AtomicU32 = Word<u32>;
    type AtomicUsize = Word<usize>;
    type IrqFlags = ();
    type Home<T> = <Smp as Platform>::Home<T>;

    fn place<T>(value: T) -> Self::Home<T> {
        Smp::place(value)
    }

    fn now() -> u64 {
        let engine = engine();
        engine.cpus.pass(engine.clock_price);
        Smp::now()
    }

    fn turn() -> Turn {
        let engine = engine();
        engine.turns[engine.cpus.this().task.get() as usize].get()
    }

    fn set_turn(turn: Turn) {
        let engine = engine();
        engine.turns[engine.cpus.this().task.get() as usize].set(turn);
    }

    #[inline]
    fn spin_hint() {
        Smp::spin_hint();
    }

    #[inline]
    fn spin_until(word: &Self::AtomicU32, done: impl Fn(u32) -> bool) -> u32 {
        poll_and_yield(word, Until::Says(&|| done(word.peek())));
        word.peek()
    }

    #[inline]
    fn spin_until_is(word: &Self::AtomicU32, value: u32) {
        poll_and_yield(word, Until::Is(word.cell(), value));
    }

    fn spin_until_either(
        word: &Self::AtomicU32,
        other: &Self::AtomicU32,
        done: impl Fn(u32, u32) -> bool,
    ) {
        let engine = engine();
        let polled = || {
            let beside = other.load(Ordering::Relaxed);
            let place = engine.offset(word);
            let pace = Pace::Looks(LOOKS_PER_OTHER);
            engine.poll(place, Until::Says(&|| done(word.peek(), beside)), pace)
        };
        while !polled() {}
    }

    fn spin_looks(word: &Self::AtomicU32, looks: u32, done: impl Fn(u32) -> bool) -> Option<u32> {
        let engine = engine();
        let (place, pace) = (engine.offset(word), Pace::Looks(looks));
        let over = looks > 0 && engine.poll(place, Until::Says(&|| done(word.peek())), pace);
        over.then(|| word.peek())
    }

    fn spin_for(word: &Self::AtomicU32, until: u64, done: impl Fn(u32) -> bool) -> u32 {
        let engine = engine();
        let pace = Pace::Clock { looks: LOOKS_PER_CLOCK, until: until.saturating_mul(1000) };
        let over = !engine.spinners.spins_never.get()
            && engine.poll(engine.offset(word), Until::Says(&|| done(word.peek())), pace);
        // Relaxed: the caller orders.
        if over { word.peek() } else { word.load(Ordering::Relaxed) }
    }

    fn monitor<'a>(task: TaskId) -> Option<Monitor<'a, Word<u32>>> {
        Smp::monitor(task)
    }

    fn request_extension() {
        let engine = engine();
        if engine.os().offers_extension() {
            engine.slices.of(Self::current(), &engine.region).ask();
        }
    }

    fn end_extension() {
        if engine().slices.get(Self::current()).is_some_and(Slice::take_back) {
            system(|| engine().os().user_slice_yield());
        }
    }

    fn is_real_time() -> bool {
        system(|| engine().os().user_call());
        false
    }

    fn wait(word: &Self::AtomicU32, expected: u32, sleep: Sleep, deadline: Option<u64>) -> Wake {
        system(|| engine().os().user_wait(word, expected, sleep, deadline))
    }

    fn wake(word: *const Self::AtomicU32, count: usize) {
        system(|| engine().os().user_wake(word, count));
    }

    fn signal_pending(sleep: Sleep) -> bool {
        Smp::signal_pending(sleep)
    }

    #[inline]
    fn current() -> TaskId {
        Smp::current()
    }

    #[inline]
    fn cpu() -> u32 {
        Smp::cpu()
    }

    #[inline]
    fn package() -> u32 {
        Smp::package()
    }

    #[inline]
    fn touch<T: ?Sized>(start: &T, access: Access) {
        Smp::touch(start, access);
    }

    #[inline]
    fn event<T: ?Sized>(event: LockEvent, lock: &T, task: TaskId) {
        Smp::event(event, lock, task);
    }

    convoy_sync::user_space!();
}
