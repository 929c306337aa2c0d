//! The programs that jobs execute: the system calls of the shell and of `ls`, with their page
//! faults and the user time that the calibration measured.
//!
//! How often a shell takes the big kernel lock is not known for the published runs. The sites are
//! those of [`crate::preset::Paths`]; the preset's `events_per_shell` is the number of sites that
//! are executed, in the order of certainty ([`sites`]); a fraction is carried to the next shell.
//! They lie close together at the start of the shell.

use crate::base::bump;
use crate::costs::{PROGRAM_UNITS, spend};
use crate::mm::Fault;
use crate::process::Process;
use convoy_machine::Here;
use convoy_workload::api::{Exit, Fd, Open, Program, Sys};
use convoy_workload::{Errno, api};
use core::fmt::Write as _;

/// Longest distance of two big-kernel-lock sites at the start of a shell, picoseconds: up to eight
/// within about 1 ms.
const SITE_DISTANCE_PS: u64 = 100_000_000;
/// Status of a command that cannot be run.
const NOT_FOUND: i32 = 127;
/// Status of `ls` when a directory cannot be read.
const LIST_FAILED: i32 = 2;
/// What programs of workloads are linked to.
const LIBRARY: &str = "/lib/libc.so";
/// Parts into which the loading of a program is cut.
const LOAD_PARTS: u32 = 4;

/// A program: where it is and what its start costs.
struct Image {
    path: &'static str,
    libraries: &'static [&'static str],
    /// Page faults on the pages of files, and on new memory (measured with `getrusage` for bash and
    /// GNU ls).
    file_faults: u32,
    memory_faults: u32,
    unit: &'static str,
}

const SHELL: Image = Image {
    path: "/bin/sh",
    libraries: &["/lib/libtermcap.so", "/lib/libc.so"],
    file_faults: 90,
    memory_faults: 45,
    unit: PROGRAM_UNITS[0],
};

const LIST: Image = Image {
    path: "/bin/ls",
    libraries: &["/lib/libc.so"],
    file_faults: 65,
    memory_faults: 35,
    unit: PROGRAM_UNITS[1],
};

/// A place in the start of a shell that takes the big kernel lock, in the order in which they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    /// `open("/dev/tty")`.
    TerminalOpen,
    /// `TIOCGPGRP` on the standard error.
    TerminalGroup,
    /// `close` of it.
    TerminalRelease,
    /// A library looks up a static file of /proc.
    ProcLookup,
    /// And closes it.
    ProcRelease,
    /// `F_SETFL` of a name service library.
    SetFlags,
    /// `TCGETS` on the script when it lies on ext3.
    ScriptIoctl,
}

/// The sites of a shell, the certain ones first.
fn sites(terminal_ioctl: bool, terminal: bool) -> &'static [Site] {
    use Site::{
        ProcLookup, ProcRelease, ScriptIoctl, SetFlags, TerminalGroup, TerminalOpen,
        TerminalRelease,
    };
    match (terminal_ioctl, terminal) {
        (true, true) => &[
            TerminalOpen,
            TerminalRelease,
            TerminalGroup,
            TerminalGroup,
            ScriptIoctl,
            ProcLookup,
            ProcRelease,
            SetFlags,
        ],
        (false, true) => &[
            TerminalOpen,
            TerminalRelease,
            ScriptIoctl,
            ProcLookup,
            ProcRelease,
            SetFlags,
            ProcLookup,
            ProcRelease,
        ],
        (_, false) => &[
            TerminalOpen,
            ScriptIoctl,
            ProcLookup,
            ProcRelease,
            SetFlags,
            ProcLookup,
            ProcRelease,
            SetFlags,
        ],
    }
}

impl Process {
    /// Runs `program` in this process until it exits; returns its exit status.
    pub(crate) fn run_program(&self, program: Program, argument: &str) -> i32 {
        match program {
            Program::True => self.run_shell("/bin/true.sh"),
            Program::List => self.run_list_script(argument),
            Program::SystemList => {
                // `sh -c script` executes the script without another fork.
                match self.run_shell("/bin/list.sh") {
                    0 => self.run_list_script(argument),
                    code => code,
                }
            }
        }
    }

    /// A script with one command, `ls -l directory > /dev/null`.
    fn run_list_script(&self, directory: &str) -> i32 {
        let code = self.run_shell("/bin/list.sh");
        if code != 0 {
            return code;
        }
        let directory = directory.to_owned();
        let list = move |child: &mut Self| child.run_list(&directory);
        let forked = self.call("fork", || self.fork_process(Box::new(list)));
        if forked.is_err() {
            return NOT_FOUND;
        }
        let ended = self.call("wait", || self.wait_for_child());
        self.call("ioctl", || self.standard_ioctl());
        match ended {
            Ok((_, Exit::Code(code))) => code,
            Ok((_, Exit::Signal(number))) => 128 + number,
            Err(_) => NOT_FOUND,
        }
    }

    /// `execve` of `image`, for `script` if there is one, and the work of the dynamic loader.
    ///   Returns the picoseconds of user time that are left.
    fn load(&self, image: &Image, script: Option<&str>) -> Sys<u64> {
        self.call("execve", || self.execute(script, image.path, image.libraries))?;
        let user = self.world.unit_ps(image.unit, 1);
        let part = user / 8;
        for library in image.libraries {
            let fd = self.open_file(library, Open::READ)?;
            let mut header = [0; 832];
            self.call("read", || self.files.read(fd, &mut header))?;
            self.call("mmap", || self.mm.change_map(2 * self.world.costs.map));
            self.call("close", || self.files.close(fd))?;
        }
        for _ in 0..LOAD_PARTS {
            self.take_faults(image, LOAD_PARTS)?;
            self.user_time(part / 2);
        }
        Ok(user - u64::from(LOAD_PARTS) * (part / 2))
    }

    /// `execve` itself.
    fn execute(&self, script: Option<&str>, program: &str, libraries: &[&str]) -> Sys<()> {
        let world = &*self.world;
        for path in script.into_iter().chain([program]) {
            let dentry = self.paths.walk(path)?;
            dentry.inode.get_page(0);
            world.put_path(&dentry);
        }
        world.sched.exec_balance();
        self.mm.release(&world.zones, &world.costs);
        self.handlers.reset();
        // The old credentials (`commit_creds`).
        world.free_later(1);
        self.mm.mappings().map(program, libraries);
        world.work(self.mm.mappings().rest(world.costs.exec, 1));
        Ok(())
    }

    /// `execve` of a program of a workload, with the page faults of its start.
    pub(crate) fn start_image(&self, image: &api::Image<'_>) -> Sys<()> {
        self.call("execve", || self.execute(None, image.path, &[LIBRARY]))?;
        self.touch_image(image.path, image.file_pages, image.memory_pages)
    }

    /// One part of `parts` of the page faults of a program's start.
    fn take_faults(&self, image: &Image, parts: u32) -> Sys<()> {
        let name = image.libraries.last().unwrap_or(&image.path);
        self.touch_image(name, image.file_faults / parts, image.memory_faults / parts)
    }

    /// Page faults on the first pages of a file, and on new memory.
    fn touch_image(&self, path: &str, file_pages: u32, memory_pages: u32) -> Sys<()> {
        let world = &*self.world;
        let library = world.walk(&world.tree.root, path)?;
        for page in 0..file_pages {
            bump(&world.counts.faults);
            let page = u64::from(page);
            self.mm.fault_file(
                || {
                    library.inode.fault_in(world, page)?;
                    library.inode.get_page(page);
                    Ok(())
                },
                &world.costs,
            )?;
        }
        world.put_path(&library);
        for _ in 0..memory_pages {
            bump(&world.counts.faults);
            self.mm.fault(Fault::Zero, &world.zones, &world.costs)?;
        }
        Ok(())
    }

    /// The shell, on a script, up to its first command.
    fn run_shell(&self, script: &str) -> i32 {
        self.start_shell(script).map_or(NOT_FOUND, |()| 0)
    }

    fn start_shell(&self, script: &str) -> Sys<()> {
        let mut left = self.load(&SHELL, Some(script))?;
        let mut chosen = [Site::TerminalOpen; 8];
        let chosen = self.choose_sites(&mut chosen);
        let distance = (left / 16).min(SITE_DISTANCE_PS);
        let mut terminal = None;
        for site in chosen {
            self.user_time(distance);
            left -= distance;
            self.visit(*site, &mut terminal);
        }
        // Signal handlers, `getpid`, `uname`, `stat`, `brk` and their like.
        self.call("brk", || spend(self.world.costs.shell_system));
        let fd = self.open_file(script, Open::READ)?;
        let mut text = [0; 80];
        self.call("read", || self.files.read(fd, &mut text))?;
        self.user_time(left);
        self.call("close", || self.files.close(fd))
    }

    /// The sites of the next shell, in their order.
    fn choose_sites<'a>(&self, room: &'a mut [Site; 8]) -> &'a [Site] {
        let world = &*self.world;
        let sites = sites(world.traffic.terminal_ioctl, world.options.terminal);
        let wanted = world.bkl_events_left.get() + world.traffic.events_per_shell;
        let count = (wanted as usize).clamp(2, sites.len());
        world.bkl_events_left.set((wanted - count as f64).clamp(-1.0, 1.0));
        room[..count].copy_from_slice(&sites[..count]);
        room[..count].sort_unstable();
        &room[..count]
    }

    fn visit(&self, site: Site, terminal: &mut Option<Fd>) {
        let world = &*self.world;
        match site {
            // Without a controlling terminal this fails, under the lock as well.
            Site::TerminalOpen => {
                *terminal = self.open_file("/dev/tty", Open::READ_WRITE).ok();
            }
            Site::TerminalGroup => self.call("ioctl", || world.terminal_ioctl()),
            Site::TerminalRelease => {
                if let Some(fd) = terminal.take() {
                    // The descriptor was opened by this shell.
                    let _infallible = self.call("close", || self.files.close(fd));
                }
            }
            Site::ProcLookup => self.call("open", || world.proc_lookup()),
            Site::ProcRelease => self.call("close", || world.proc_release()),
            Site::SetFlags | Site::ScriptIoctl => self.call("fcntl", || world.tiny_section()),
        }
    }

    /// `ls -l directory > /dev/null`, from the shell's child on.
    fn run_list(&self, directory: &str) -> i32 {
        match self.list(directory) {
            Ok(()) => 0,
            Err(Errno::EMFILE | Errno::ENOMEM) => NOT_FOUND,
            Err(_) => LIST_FAILED,
        }
    }

    fn list(&self, directory: &str) -> Sys<()> {
        let null = self.open_file("/dev/null", Open::WRITE)?;
        let left = self.load(&LIST, None)?;
        // `isatty` and the width of the standard output: /dev/null has no ioctl.
        for _ in 0..2 {
            self.call("ioctl", || Here::pass(self.world.costs.tty_ioctl));
        }
        let fd = self.open_file(directory, Open::READ)?;
        let mut names = Vec::new();
        while self.call("getdents", || self.files.read_directory(fd))? > 0 {
            names = self.files.names(fd)?;
        }
        self.call("close", || self.files.close(fd))?;
        let each = left / (names.len() as u64 + 1);
        let mut path = String::new();
        for name in &names {
            path.clear();
            // Writing to a string never fails.
            let _infallible = write!(path, "{directory}/{name}");
            // A name may be gone by now; `ls` goes on.
            let _gone = self.call("stat", || self.paths.stat(&path));
            self.user_time(each);
        }
        for _ in 0..2 {
            self.look_up_user();
        }
        self.user_time(left - each * names.len() as u64);
        self.call("write", || self.files.write(null, &[0; 4096]))?;
        self.call("close", || self.files.close(null))
    }

    /// One look-up in the user database: tries the name service cache, reads the file.
    pub(crate) fn look_up_user(&self) {
        let world = &*self.world;
        let tries = self.name_service_tries.get();
        if tries > 0 {
            self.name_service_tries.set(tries - 1);
            self.call("connect", || {
                spend(world.costs.name_service);
                world.vfs.make_anonymous(&world.costs);
            });
            self.call("fcntl", || world.tiny_section());
            self.call("shmctl", || world.vfs.list_anonymous_inode(false));
        }
        if let Ok(fd) = self.open_file("/etc/passwd", Open::READ) {
            let mut text = [0; 2048];
            // The file is there and readable.
            let _infallible = self.call("read", || self.files.read(fd, &mut text));
            let _infallible = self.call("close", || self.files.close(fd));
        }
    }

    /// `ps` picoseconds of the program's own work.
    pub(crate) fn user_time(&self, ps: u64) {
        Here::user(ps);
        if self.me.hot.signals.unlocked().peek() != 0 {
            self.deliver_signals();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_has_eight_sites_and_the_certain_ones_first() {
        for ioctl in [true, false] {
            assert_eq!(sites(ioctl, true).len(), 8);
            assert_eq!(sites(ioctl, false).len(), 8);
            assert_eq!(sites(ioctl, true)[..2], [Site::TerminalOpen, Site::TerminalRelease]);
        }
        assert!(!sites(false, true).contains(&Site::TerminalGroup));
    }
}
