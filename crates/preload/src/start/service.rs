//! The variables `LISTEN_PID` and `WATCHDOG_PID` of a unit: a program ignores its sockets unless
//! they contain its process ID. The recorder pads its own ID there, and the program that it starts
//! replaces it before `main`.

use crate::layout::{UNIT_PAD, UNIT_VARIABLES};
use crate::start::environment::{Environment, entries};
use crate::system::calls::{GETPID, GETPPID, call};

/// Writes the ID of this process into the variables that the recorder has padded.
pub(crate) fn name_this_process(environment: Environment) {
    let parent = call(GETPPID, [0; 6]) as u64;
    for text in entries(environment) {
        let value = UNIT_VARIABLES.iter().find_map(|name| {
            text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        });
        let Some(digits) = value.and_then(|value| value.strip_suffix(UNIT_PAD)) else { continue };
        let number =
            |sum: u64, digit: &u8| sum.wrapping_mul(10) + u64::from(digit.wrapping_sub(b'0'));
        if digits.iter().fold(0, number) != parent {
            continue;
        }
        let (mut own, mut reversed, mut length) = (call(GETPID, [0; 6]) as u64, [0; 20], 0);
        while length == 0 || own > 0 {
            reversed[length] = b'0' + (own % 10) as u8;
            (own, length) = (own / 10, length + 1);
        }
        let place = digits.as_ptr().cast_mut();
        for (at, digit) in reversed[..length].iter().rev().chain(&[0]).enumerate() {
            // SAFETY: the number and the zero take at most as much as the padded number.
            let byte = unsafe { place.add(at) };
            // SAFETY: a part of the environment, which nothing has read before `main`.
            unsafe { byte.write(*digit) };
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;

    /// Returns the variable after the process was named in an environment that has only it.
    fn named(variable: &str) -> String {
        let mut bytes = variable.to_owned().into_bytes();
        bytes.push(0);
        name_this_process([bytes.as_mut_ptr().cast_const().cast(), core::ptr::null()].as_ptr());
        CStr::from_bytes_until_nul(&bytes).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn only_the_padded_id_of_the_parent_is_replaced() {
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        let pad = core::str::from_utf8(UNIT_PAD).unwrap();
        for name in UNIT_VARIABLES {
            assert_eq!(named(&format!("{name}={parent}{pad}")), format!("{name}={own}"));
            let others = [format!("{name}={parent}"), format!("{name}={}{pad}", parent + 1)];
            assert_eq!(others.each_ref().map(|text| named(text)), others);
        }
        let other = format!("PID={parent}{pad}");
        assert_eq!(named(&other), other);
    }
}
