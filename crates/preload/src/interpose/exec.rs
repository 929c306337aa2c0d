//! The functions of libc that start a program: execve(3) and its family, `posix_spawn(3)`. Each
//! passes on the variables of the recorder if the environment lacks them, see
//! [`variables`](crate::start::variables).
//!
//! system(3) and popen(3) start the shell inside libc, with the environment of the process. If that
//! lacks the variables, the shell is noted as not recorded: changing the environment of a process
//! temporarily would not be safe with threads.

use core::arch::naked_asm;
use core::ffi::{CStr, c_int};

use crate::arch::number::FACCESSAT;
use crate::file::unloaded;
use crate::interpose::libc;
use crate::layout::BY_LIBC;
use crate::start::environment::{Environment, value};
use crate::start::program::{self, AT_FDCWD};
use crate::start::variables;
use crate::system::calls::call;

/// The search path of libc if `PATH` is not set.
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";
/// Maximum length of a path that is found by `PATH`; the variables are not carried to others.
const LONGEST: usize = 512;

/// Returns the current environment of this process.
fn own() -> Environment {
    unsafe extern "C" {
        static environ: Environment;
    }
    // SAFETY: libc's variable. libc's own functions have the same race with a change of it.
    unsafe { environ }
}

/// Returns whether the file that libc finds for a name can load the object, as [`program::look`]
/// does.
fn search(file: usize) -> Option<Result<(), u64>> {
    const EXECUTE: usize = 1;
    // SAFETY: a C string, by the contract of the function.
    let name = unsafe { CStr::from_ptr(file as *const _) }.to_bytes_with_nul();
    if name.contains(&b'/') {
        return program::look(AT_FDCWD, file);
    }
    let path = value(own(), b"PATH=").unwrap_or(USUAL_PATH);
    let mut place = [0; LONGEST];
    path.split(|byte| *byte == b':').find_map(|directory| {
        let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
        let mut length = 0;
        for part in [directory, slash, name] {
            place.get_mut(length..length + part.len())?.copy_from_slice(part);
            length += part.len();
        }
        let path = place.as_ptr() as usize;
        let may_start = call(FACCESSAT, [AT_FDCWD, path, EXECUTE, 0, 0, 0]) == 0;
        if may_start { program::look(AT_FDCWD, path) } else { None }
    })
}

fn at(path: usize, arguments: usize, environment: usize) -> c_int {
    let look = || program::look(AT_FDCWD, path);
    variables::pass(look, path, environment, |environment| {
        libc::EXECVE.call([path, arguments, environment, 0])
    })
}

fn named(file: usize, arguments: usize, environment: usize) -> c_int {
    variables::pass(
        || search(file),
        file,
        environment,
        |environment| libc::EXECVPE.call([file, arguments, environment, 0]),
    )
}

fn opened(descriptor: usize, arguments: usize, environment: usize) -> c_int {
    let (look, name) = (|| program::look_again(descriptor), c"an opened file".as_ptr() as usize);
    variables::pass(look, name, environment, |environment| {
        libc::FEXECVE.call([descriptor, arguments, environment, 0])
    })
}

/// Defines functions with the names and the arguments of libc's.
macro_rules! starts {
    ($($name:ident ($($argument:ident),*) $body:expr;)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// As libc demands.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name($($argument: usize),*) -> usize {
            $body as usize
        }
    )*};
}

starts! {
    execve(path, arguments, environment) at(path, arguments, environment);
    execv(path, arguments) at(path, arguments, own() as usize);
    execvp(file, arguments) named(file, arguments, own() as usize);
    execvpe(file, arguments, environment) named(file, arguments, environment);
    fexecve(descriptor, arguments, environment)
        opened(descriptor, arguments, environment);
    execveat(directory, path, arguments, environment, flags)
        variables::pass(|| program::look_from(directory, path), path, environment, |environment| {
            libc::EXECVEAT.call_six([directory, path, arguments, environment, flags, 0]) as c_int
        });
    posix_spawn(child, path, actions, how, arguments, environment)
        variables::pass(|| program::look(AT_FDCWD, path), path, environment, |environment| {
            let all = [child, path, actions, how, arguments, environment];
            libc::POSIX_SPAWN.call_six(all) as c_int
        });
    posix_spawnp(child, file, actions, how, arguments, environment)
        variables::pass(|| search(file), file, environment, |environment| {
            let all = [child, file, actions, how, arguments, environment];
            libc::POSIX_SPAWNP.call_six(all) as c_int
        });
    system(command) inside(&libc::SYSTEM, command, 0);
    popen(command, how) inside(&libc::POPEN, command, how);
}

/// Calls a function of libc that starts a shell, and notes the shell if it is not recorded.
fn inside(function: &libc::Real, command: usize, how: usize) -> usize {
    if command != 0 && variables::is_lost(own()) {
        unloaded::note(BY_LIBC, c"/bin/sh".as_ptr() as usize);
    }
    function.call_six([command, how, 0, 0, 0, 0])
}

extern "C" fn list(path: usize, arguments: usize) -> c_int {
    at(path, arguments, own() as usize)
}

extern "C" fn list_named(file: usize, arguments: usize) -> c_int {
    named(file, arguments, own() as usize)
}

extern "C" fn list_with(path: usize, arguments: usize) -> c_int {
    let mut place = arguments as *const usize;
    // SAFETY: the list ends with a null pointer.
    while unsafe { *place } != 0 {
        // SAFETY: not beyond its end.
        place = unsafe { place.add(1) };
    }
    // SAFETY: the environment is the parameter after the list.
    let place = unsafe { place.add(1) };
    // SAFETY: as above.
    at(path, arguments, unsafe { *place })
}

/// Functions that take the arguments of the program as parameters. The parameters in registers are
/// stored before those on the stack, above the return address, so that all of them form the list
/// that the other functions take.
macro_rules! lists {
    ($($name:ident $to:ident;)*) => {$(
        /// libc's function of this name.
        ///
        /// # Safety
        /// As libc demands.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "pop r11",
                "push r9", "push r8", "push rcx", "push rdx", "push rsi",
                "mov rsi, rsp",
                // Restores the alignment to 16 bytes.
                "push r11",
                "call {to}",
                "pop r11",
                "add rsp, 40",
                "jmp r11",
                to = sym $to,
            );
            // Creates a frame, with the register parameters below those on the stack.
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "mov x29, sp",
                "str x1, [sp, #24]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "add x1, sp, #24",
                "bl {to}",
                "ldp x29, x30, [sp], #80",
                "ret",
                to = sym $to,
            );
        }
    )*};
}

lists! {
    execl list;
    execlp list_named;
    execle list_with;
}
