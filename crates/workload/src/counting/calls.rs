//! The system calls of Linux that correspond to one call of the trait, if there are several.

use crate::api::{Query, SocketKind};

pub(super) const fn of_sockets(kind: SocketKind) -> &'static [&'static str] {
    match kind {
        SocketKind::Tcp => &[
            "socket",
            "bind",
            "listen",
            "socket",
            "connect",
            "accept",
            "setsockopt",
            "setsockopt",
            "close",
        ],
        SocketKind::Udp => &["socket", "bind", "socket", "bind", "connect", "connect"],
        SocketKind::UnixStream | SocketKind::UnixDatagram => &["socketpair"],
    }
}

pub(super) const fn of_query(query: Query) -> &'static [&'static str] {
    match query {
        Query::WorkingDirectory => &["getcwd"],
        Query::Ids => {
            &["getuid", "geteuid", "getgid", "getegid", "getgroups", "getpid", "getppid", "getpgrp"]
        }
        Query::UserDatabase => &["(user database)"],
        Query::System => &["times", "uname"],
        Query::Terminal => &["ioctl", "ioctl"],
    }
}
