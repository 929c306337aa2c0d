//! The machine from outside ([`Machine`]) and from a task that runs on it ([`Here`]).

use crate::engine::{
    CpuTimes, Engine, Mode, Outcome, Slice, catch, command, engine, fetch, installed, set_engine,
};
use crate::memory::Sim;
use crate::os::Os;
use crate::preset::Preset;
use crate::trace::{Event, Recorder};
use crate::watch::Watch;
use crate::word::Word;
use convoy_sync::{Monitor, TaskId};
use core::cell::RefCell;
use core::panic::Location;
use std::rc::Rc;

/// A virtual SMP. One for each thread at a time; not `Send`.
pub struct Machine {
    engine: Box<Engine>,
    cpus: usize,
}

impl Machine {
    /// A machine of `preset` with room for `tasks` tasks at a time. `seed` keys the perturbation
    /// and every draw.
    ///
    /// Fails when the host cannot reserve the address space: 16 GiB for objects and 64 KiB for each
    /// task, and half of that again for the line directory; only used memory is committed.
    ///
    /// # Panics
    ///
    /// When this thread has a machine already.
    pub fn new(preset: &Preset, seed: u64, tasks: usize) -> std::io::Result<Self> {
        let machine = Self {
            engine: Box::new(Engine::new(preset, seed, tasks)?),
            cpus: preset.topology.cpus,
        };
        assert!(!installed(), "one machine at a time on a thread");
        catch();
        set_engine(&raw const *machine.engine);
        Ok(machine)
    }

    /// Installs the operating system.
    pub fn install(&self, os: Rc<dyn Os>) {
        self.engine.install(os);
    }

    /// Reports all events from now on to `recorder`.
    pub fn record(&self, recorder: Rc<RefCell<dyn Recorder>>) {
        self.engine.tap.attach(recorder);
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Gives `cpu` its first task, which starts at `at_ns`.
    pub fn boot(&self, cpu: usize, task: TaskId, at_ns: u64) {
        self.engine.boot(cpu, task, at_ns * 1000);
    }

    /// Runs until [`Here::stop`], until nothing is left to do, or until virtual time passes
    /// `until_ns`.
    pub fn run(&self, until_ns: u64) -> Outcome {
        self.engine.run(until_ns.saturating_mul(1000))
    }

    /// For a run that did not end: describes the state of every CPU, the waiting tasks with their
    /// locks and the owners, and the command line that repeats the run.
    pub fn explain_no_end(&self) -> String {
        let mut lines = self.engine.describe();
        lines.push(format!("repeat it with: {}", command()));
        lines.join("; ")
    }

    /// Ends runs with [`Outcome::OperationLimit`] after so many simulated memory operations in all:
    /// a bound on the time of the host that does not depend on its speed.
    pub fn limit_operations(&self, most: u64) {
        self.engine.watchdog.limit_operations(most);
    }

    /// From now on user-mode locks that spin read the word only once, like programs that know that
    /// they have one CPU.
    pub fn forbid_spinning(&self) {
        self.engine.spinners.spins_never.set(true);
    }

    /// From now on each look of a loop in user mode is executed, though its outcome is known: a
    /// reference for tests, a thousand times slower with many CPUs.
    pub fn execute_each_look(&self) {
        self.engine.spinners.polls_each.set(true);
    }

    /// Hash of the schedule so far: every resumption with its time, CPU and task.
    pub fn hash(&self) -> u64 {
        self.engine.cpus.hash.get()
    }

    /// Simulated memory operations so far.
    pub fn operations(&self) -> u64 {
        self.engine.watchdog.operations()
    }

    /// Coroutine resumptions so far.
    pub fn resumes(&self) -> u64 {
        self.engine.tasks.resumes()
    }

    /// Virtual time of the CPU that ran last, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.engine.cpus.now() / 1000
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.engine.observer.end();
        self.engine.tasks.abandon();
        if Rc::strong_count(&self.engine.region) > 1 {
            self.engine.region.retire_stacks();
        }
        set_engine(core::ptr::null());
    }
}

/// The machine as code that runs on it sees it: the running CPU and its clock.
#[derive(Clone, Copy, Debug)]
pub struct Here;

impl Here {
    /// Virtual time of this CPU in picoseconds.
    #[inline]
    pub fn now_ps() -> u64 {
        engine().cpus.now()
    }

    /// Virtual time of this CPU in nanoseconds.
    #[inline]
    pub fn now_ns() -> u64 {
        engine().cpus.now() / 1000
    }

    /// Simulated memory operations so far, of all CPUs.
    pub fn operations() -> u64 {
        engine().watchdog.operations()
    }

    /// Coroutine resumptions so far, of all CPUs.
    pub fn resumes() -> u64 {
        engine().tasks.resumes()
    }

    /// The running CPU.
    #[inline]
    pub fn cpu() -> usize {
        engine().cpus.running()
    }

    /// The task on the running CPU.
    #[inline]
    pub fn task() -> TaskId {
        engine().cpus.this().task.get()
    }

    /// Kernel instructions without shared memory: `ps` picoseconds pass, at most a few
    /// microseconds.
    #[inline]
    pub fn pass(ps: u64) {
        engine().cpus.pass(ps);
    }

    /// Reads the lines of `words`, of which no address depends on another's value, as far at once
    /// as the CPU can (`fill_buffers` of the preset).
    pub fn fetch_together<'a, T: 'a>(words: impl Iterator<Item = &'a Word<T>>) {
        let engine = engine();
        engine.fetch_together(words.map(|word| engine.offset(word)));
    }

    /// Works for `ps` picoseconds in the current mode; takes interrupts on time.
    #[inline]
    pub fn compute(ps: u64) {
        engine().compute(ps);
    }

    /// Works for `ps` picoseconds in user mode; takes interrupts on time.
    #[inline]
    pub fn user(ps: u64) {
        let engine = engine();
        let mode = engine.set_mode(Mode::User);
        engine.compute(ps);
        engine.set_mode(mode);
    }

    /// Idles until an interrupt has been taken.
    pub fn halt() {
        engine().halt();
    }

    /// Sets this CPU's timer to `at` picoseconds; `u64::MAX` stops it.
    pub fn set_timer(at: u64) {
        engine().cpus.set_timer(at);
    }

    /// Sends an interrupt that reaches `cpu` at `at` picoseconds.
    pub fn kick(cpu: usize, at: u64) {
        engine().cpus.kick(cpu, at);
    }

    /// Switches this CPU to `next`; returns when the calling task is switched to again.
    pub fn switch_to(next: TaskId) {
        engine().switch_to(next);
    }

    /// Says that some CPU will soon switch to `task`, and returns the two tasks that left their
    /// CPUs next after it did: they probably follow. Changes nothing but the host's caches.
    #[inline]
    pub fn expect(task: TaskId) -> [TaskId; 2] {
        engine().tasks.expect(task)
    }

    /// Fetches the first line of `object` into the host's caches.
    #[inline]
    pub fn fetch<T>(object: &T) {
        fetch(core::ptr::from_ref(object).cast(), 1);
    }

    /// Prefetches the word at the simulated address `word`, and the directory entry of its line,
    /// into the host's caches.
    #[inline]
    pub fn fetch_word(word: usize) {
        engine().fetch_word(word);
    }

    /// Ends the calling task and gives its CPU to `next`. The caller then returns from
    /// [`Os::task_end`](crate::Os::task_end), or calls [`Self::vanish`].
    pub fn retire(next: TaskId) {
        engine().retire(next);
    }

    /// Leaves the body of a retired task by unwinding its stack.
    pub fn vanish() -> ! {
        engine().vanish()
    }

    /// Creates a task; it runs when some CPU switches to it. `None` if the machine has no free
    /// stack.
    pub fn spawn(body: Box<dyn FnOnce()>) -> Option<TaskId> {
        engine().spawn(body, false)
    }

    /// Creates a task that runs [`Os::idle`](crate::Os::idle). It owns nothing, so that nothing is
    /// leaked with it when the machine ends.
    pub fn spawn_idle() -> Option<TaskId> {
        engine().spawn(Box::new(|| engine().os().idle()), true)
    }

    /// Creates a task that runs [`Os::kthread`](crate::Os::kthread). Like an idle task it owns
    /// nothing.
    pub fn spawn_kthread() -> Option<TaskId> {
        engine().spawn(Box::new(|| engine().os().kthread(Self::task())), false)
    }

    /// Sends a request to the disk, which serves one after the other: the picosecond at which this
    /// one will be done. The operating system queues requests under a lock, so that CPUs that have
    /// run ahead do not overtake each other, and puts the caller to sleep until then.
    pub fn disk_request() -> u64 {
        let engine = engine();
        engine.disk.request(engine.cpus.now())
    }

    /// Places an object in simulated memory.
    pub fn place<T>(value: T) -> Sim<T> {
        Sim::place(&engine().region, value)
    }

    /// Simulated address of an object, for [`Os::wait`](crate::Os::wait).
    pub fn address<T: ?Sized>(object: *const T) -> usize {
        engine().offset(object)
    }

    /// Number of the line of an object. All that a task has on its stack is one line, so this
    /// number may enter a decision where [`Self::address`] may not.
    pub fn line_of<T: ?Sized>(object: *const T) -> usize {
        let engine = engine();
        engine.lines.index(engine.offset(object))
    }

    /// Ends [`Machine::run`].
    pub fn stop() {
        engine().stop();
    }

    /// Changes what this CPU's time is accounted to; returns the former mode.
    pub fn set_mode(mode: Mode) -> Mode {
        engine().set_mode(mode)
    }

    /// Accounted times of `cpu`, in picoseconds, up to its last change of mode.
    pub fn times(cpu: usize) -> CpuTimes {
        engine().cpus.all[cpu].times()
    }

    /// The times of `cpu` with its present mode up to now.
    pub fn times_so_far(cpu: usize) -> CpuTimes {
        let cpus = &engine().cpus;
        cpus.all[cpu].times_until(cpus.now())
    }

    /// Calls `look` with the time in picoseconds every `every_ns` nanoseconds of virtual time from
    /// now on. Observation takes no virtual time and does not change the schedule; `look` may read
    /// counters of the machine and the kernel, and no simulated memory. It is dropped with the
    /// machine.
    pub fn observe(every_ns: u64, look: impl FnMut(u64) + 'static) {
        let engine = engine();
        engine.observer.begin(engine.cpus.now(), every_ns.saturating_mul(1000), Box::new(look));
    }

    /// `change` more tasks wait for a CPU from now on, for [`Self::spun_beside_ps`].
    pub fn tasks_wait(change: i64) {
        let engine = engine();
        engine.beside.tasks_wait(engine.cpus.now(), change);
    }

    /// Returns the CPU time, in picoseconds, spent spinning on lock words that waiting tasks could
    /// have used: at any time the smaller of the numbers of spinning CPUs and waiting tasks.
    pub fn spun_beside_ps() -> u64 {
        let engine = engine();
        engine.beside.time(engine.cpus.now())
    }

    /// Whether a reschedule of this CPU is wanted.
    #[inline]
    pub fn need_resched() -> bool {
        engine().cpus.this().resched.get()
    }

    /// Whether a reschedule of `cpu` is wanted.
    #[inline]
    pub fn resched_of(cpu: usize) -> bool {
        engine().cpus.all[cpu].resched.get()
    }

    /// Sets whether a reschedule of `cpu` is requested; returns the previous value. While none is,
    /// [`Os::preempt_point`](crate::Os::preempt_point) is not called there.
    #[inline]
    pub fn set_resched(cpu: usize, wanted: bool) -> bool {
        engine().cpus.all[cpu].resched.replace(wanted)
    }

    /// Depth of disabled preemption on this CPU.
    pub fn preempt_depth() -> u32 {
        engine().cpus.this().preempt_off.get()
    }

    /// Sets the depth of disabled preemption: a context switch restores the depth of the task it
    /// switches to.
    pub fn set_preempt_depth(depth: u32) {
        engine().cpus.this().preempt_off.set(depth);
    }

    /// Whether interrupts are disabled on this CPU.
    pub fn irqs_disabled() -> bool {
        engine().cpus.this().irqs_off()
    }

    /// Returns whether some task has marks of critical sections
    /// ([`Platform::monitor`](convoy_sync::Platform::monitor)).
    #[inline]
    pub fn has_monitor() -> bool {
        engine().marked.is_used()
    }

    /// Returns the count of preempted critical sections, which the operating system keeps, with the
    /// marks of `task`; `None` if it has none.
    pub fn monitored<'a>(task: TaskId) -> Option<Monitor<'a, Word<u32>>> {
        engine().marked.get(task)
    }

    /// Returns the request of `task` for a longer time slice
    /// ([`Platform::request_extension`](convoy_sync::Platform::request_extension)), if it has made
    /// one before.
    pub fn slice_of<'a>(task: TaskId) -> Option<&'a Slice> {
        engine().slices.get(task)
    }

    /// Adds a decision of the operating system to the schedule hash.
    pub fn note(value: u64) {
        engine().cpus.note(value);
    }

    /// A deterministic draw, keyed by `key` and the machine's seed.
    pub fn draw(key: u64) -> u64 {
        engine().draw(key)
    }

    /// Names a lock and watches it from now on.
    pub fn watch<T: ?Sized>(lock: &T, name: &'static str) {
        Self::name(lock, name);
        engine().watches.add(name, engine().offset(lock));
    }

    /// Reports `event` to the recorder of the machine, if it has one.
    #[inline]
    pub fn tell(event: Event) {
        engine().tell(|| event);
    }

    /// The caller's caller is about to take a lock: where, for reports of builds with debug
    /// assertions.
    #[track_caller]
    #[inline]
    pub fn taking() {
        if cfg!(debug_assertions) {
            engine().rules.site(engine().cpus.running(), Location::caller());
        }
    }

    /// Names a lock, or an object with locks inside.
    #[inline]
    pub fn name<T: ?Sized>(object: &T, name: &'static str) {
        let engine = engine();
        if cfg!(debug_assertions) {
            engine.rules.name(engine.offset(object), size_of_val(object), name);
        }
        engine.tell(|| Event::Name {
            lock: engine.offset(object),
            bytes: size_of_val(object),
            name,
        });
    }

    /// Returns the statistics of the watched locks so far.
    pub fn watched() -> Vec<Watch> {
        engine().watches.snapshot(engine().cpus.now())
    }

    /// The same for an observer: nothing is settled.
    pub fn watched_so_far() -> Vec<Watch> {
        engine().watches.so_far(engine().cpus.now())
    }
}
