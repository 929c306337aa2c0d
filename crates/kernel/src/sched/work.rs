//! Deferred work. The parts of the scheduler that keep it do not know the scheduler: its type is
//! their parameter `S`.

use std::rc::Rc;

/// Deferred work: on a device's interrupt, when a timer expires, as a kernel thread, or after a
/// grace period.
pub type Work<S> = Box<dyn FnOnce(&S)>;

/// Handler of a software interrupt, run on the CPU that raised it.
pub type Handler<S> = Rc<dyn Fn(&S)>;
