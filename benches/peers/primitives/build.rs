//! Compiles the C++ part, with abseil if pkg-config finds its headers and libraries.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=foreign.cpp");
    println!("cargo:rustc-check-cfg=cfg(abseil)");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").opt_level(2).file("foreign.cpp");
    let libraries = Command::new("pkg-config").args(["--libs", "absl_synchronization"]).output();
    let abseil = libraries.ok().filter(|output| output.status.success());
    if abseil.is_some() {
        println!("cargo:rustc-cfg=abseil");
        build.define("ABSEIL", None);
    }
    build.compile("foreign");
    for word in abseil.iter().flat_map(|output| output.stdout.split(u8::is_ascii_whitespace)) {
        if word.starts_with(b"-l") {
            println!("cargo:rustc-link-arg={}", String::from_utf8_lossy(word));
        }
    }
}
