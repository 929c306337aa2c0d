//! The controlling terminal, `/dev/null` and /proc: where these paths take the big kernel lock.
//!
//! | site | 2.6.25 | 2.6.26-rc1 |
//! |---|---|---|
//! | open of a character device | yes | yes |
//! | release of a terminal file | yes | yes |
//! | terminal ioctl | yes | no |
//! | ioctl of a virtual console | yes | yes |
//! | write to a terminal | once | once for the text up to a line end, once for the line end |
//! | look-up and release of a static /proc entry | yes | yes |
//! | `F_SETFL` | yes | yes |

use crate::process::Process;
use crate::processes::Terminal;
use crate::vfs::Dentry;
use crate::world::World;
use convoy_machine::{Here, ps};
use convoy_workload::Errno;
use convoy_workload::api::Sys;
use std::rc::Rc;

/// Drawing the screen of a text console, 80 by 25 cells of two bytes, each an uncached write to the
/// adapter (estimate: 50 ns), in nanoseconds.
const REDRAW_NS: f64 = 100_000.0;

impl Terminal {
    /// Passes a third of the time for which `open` or release holds the big kernel lock.
    fn third(world: &World) {
        Here::pass(ps(world.traffic.hold_tty_ns) / 3);
    }

    /// Counts the open files of the terminal: a walk of its list under `files_lock`.
    fn count(&self, world: &World) {
        world.vfs.hot.files.hold(|list| {
            list.read();
            Here::pass(world.costs.tty_file * u64::from(self.files.get()));
        });
    }

    /// Adds `change` open files under `tty_mutex`.
    fn change(&self, world: &World, change: i32) {
        world.under(world.processes.tty_mutex(), || {
            Self::third(world);
            self.files.set(self.files.get().wrapping_add_signed(change));
            self.hot.write(self.files.get());
        });
    }

    /// `open` of `/dev/tty`: `chrdev_open` under the big kernel lock, `tty_mutex` twice inside.
    pub(crate) fn open(&self, world: &World) -> Sys<()> {
        world.big_kernel_lock(|| {
            if !world.options.terminal {
                Here::pass(world.costs.bkl_tiny);
                return Err(Errno::ENXIO);
            }
            world.under(world.processes.tty_mutex(), || Self::third(world));
            self.change(world, 1);
            self.count(world);
            Self::third(world);
            Ok(())
        })
    }

    /// Release of a terminal file.
    pub(crate) fn release(&self, world: &World) {
        world.big_kernel_lock(|| {
            Self::third(world);
            self.count(world);
            self.change(world, -1);
            Self::third(world);
        });
    }
}

impl World {
    /// Open files of the controlling terminal; descriptors that `fork` copied do not count.
    pub fn terminal_files(&self) -> u32 {
        self.terminal.files.get()
    }

    /// `open` of `/dev/null`: `chrdev_open` takes the big kernel lock around the driver's `open`.
    pub(crate) fn open_null(&self) {
        self.big_kernel_lock(|| Here::pass(self.costs.bkl_tiny));
    }

    /// `fcntl(F_SETFL)` and other sections of the shortest kind.
    pub(crate) fn tiny_section(&self) {
        self.big_kernel_lock(|| Here::pass(self.costs.bkl_tiny));
    }

    fn short_section(&self) {
        self.big_kernel_lock(|| Here::pass(ps(self.traffic.hold_short_ns)));
    }

    /// `ioctl` on the terminal.
    pub(crate) fn terminal_ioctl(&self) {
        if self.traffic.terminal_ioctl {
            self.short_section();
        }
        Here::pass(self.costs.tty_ioctl);
    }

    fn proc_directory(&self) -> Rc<Dentry> {
        self.tree.root.child("proc").expect("every system has one")
    }

    /// Look-up of a static entry of /proc, which is never cached.
    pub(crate) fn proc_lookup(&self) {
        Here::pass(self.costs.proc_open);
        let directory = self.proc_directory();
        self.sharing(&directory.inode.hot.lock, || {
            self.vfs.names_of(&directory, || directory.hot.name.read());
            self.short_section();
        });
    }

    /// Release of a static entry of /proc.
    pub(crate) fn proc_release(&self) {
        self.vfs.names_of(&self.proc_directory(), || ());
        self.tiny_section();
        self.vfs.list_anonymous_inode(false);
    }
}

impl Process {
    /// `ioctl` of a virtual console. From 2.6.26-rc1 on `tty_ioctl` asks the driver before the line
    /// discipline, and `vt_ioctl` takes the big kernel lock before it looks at the command
    /// (`drivers/char/tty_io.c`, `vt_ioctl.c`); before, `vfs_ioctl` takes it around all of them.
    fn console_ioctl(&self) {
        self.call("ioctl", || {
            self.world.short_section();
            Here::pass(self.world.costs.tty_ioctl);
        });
    }

    /// The X server on hearing of `Ctrl-Alt-F1`: `VT_ACTIVATE` (`xf86ProcessActionEvent` of
    /// xorg-server 1.4.2). One section; the kernel's worker then sends the server a signal.
    pub fn request_console(&mut self) {
        self.console_ioctl();
    }

    /// The X server on that signal (`xf86VTSwitch` of xorg-server 1.4.2): four sections.
    ///
    /// The keyboard is turned off (`KbdOff` of xf86-input-keyboard: `KDSKBMODE` and `TCSETS`), then
    /// the mouse (`DEVICE_OFF` of xf86-input-mouse: `F_SETFL` without `O_ASYNC`; its `close` takes
    /// no lock). Last is `VT_RELDISP`, in which the kernel draws the new screen.
    pub fn release_console(&mut self) {
        self.console_ioctl();
        self.console_ioctl();
        self.call("fcntl", || self.world.tiny_section());
        self.call("ioctl", || self.world.big_kernel_lock(|| Here::pass(ps(REDRAW_NS))));
    }

    /// A shell at a virtual console on hearing of the key Enter (readline 5.2 in bash 3.2): it ends
    /// the line, restores the terminal, prepares it again and draws the prompt.
    ///
    /// Six sections: a line end is two (`opost_block` finds it, `opost` writes it), then `TCSETSW`,
    /// `TCGETS`, `TCSETSW`, and the prompt. The window size is asked and set without the lock. In
    /// 2.6.25 the lock is held around each call, so these two take it, and so does the `read` that
    /// returns the key, but a line end is one section: eight.
    pub fn answer_enter(&mut self) {
        let around_each = self.world.traffic.terminal_ioctl;
        if around_each {
            self.call("read", || self.world.tiny_section());
        }
        self.call("write", || {
            (0..if around_each { 1 } else { 2 }).for_each(|_| self.world.short_section());
        });
        self.console_ioctl();
        // `TIOCGWINSZ` and `TIOCSWINSZ`.
        for _ in 0..2 {
            self.call("ioctl", || self.world.terminal_ioctl());
        }
        self.console_ioctl();
        self.console_ioctl();
        self.call("write", || self.world.short_section());
    }

    /// `ioctl` on file 0.
    pub(crate) fn standard_ioctl(&self) {
        if self.world.options.terminal_input() {
            self.world.terminal_ioctl();
        } else {
            Here::pass(self.world.costs.tty_ioctl);
        }
    }

    /// The process's own entry in /proc: looked up once.
    pub(crate) fn own_proc_entry(&self) {
        if self.proc_entry_missing.replace(false) {
            self.world.proc_lookup();
        } else {
            Here::pass(self.world.costs.proc_open);
        }
    }
}
