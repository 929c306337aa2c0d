//! The jobs about names: create, link, look up, list.

use crate::api::{Kernel, Open, Query};

use super::{JobEnv, JobError, call, check};
use crate::draw::{Lcg, shuffle};
use crate::{fixture, units};

/// Names that `link_test` gives to its file.
const LINKS: usize = 8;
/// Rounds of `link_test`.
const LINK_ROUNDS: u64 = 9;
/// Entries that `dir_rtns_1` reads.
const ENTRIES: u64 = 10_000;

pub(super) fn creat_clo<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let path = env.own_path("creat");
    for _ in 0..env.loops(1000) {
        let fd = call("creat", k.open(&path, Open::CREAT))?;
        call("close", k.close(fd))?;
    }
    call("unlink", k.unlink(&path))
}

pub(super) fn link_test<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let names: Vec<String> =
        (0..LINKS).map(|index| env.own_path(&format!("link{index}"))).collect();
    let fd = call("creat", k.open(&names[0], Open::CREAT))?;
    call("close", k.close(fd))?;
    for name in &names[1..] {
        call("link", k.link(&names[0], name))?;
    }
    for _ in 0..env.loops(LINK_ROUNDS) {
        for name in &names[1..] {
            call("unlink", k.unlink(name))?;
            call("link", k.link(&names[0], name))?;
        }
    }
    for name in &names {
        call("unlink", k.unlink(name))?;
    }
    Ok(())
}

pub(super) fn dir_rtns_1<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let wanted = env.loops(ENTRIES);
    let fd = call("open", k.open(&env.listed(), Open::READ))?;
    let (mut entries, mut rewound) = (0, false);
    while entries < wanted {
        let filled = call("getdents", k.read_directory(fd))? as u64;
        if filled == 0 {
            check(!rewound, "the directory is empty")?;
            call("lseek", k.seek(fd, 0))?;
        } else {
            // `readdir` hands out the names of one buffer before it asks for the next.
            let handed = filled.min(wanted - entries);
            units::run(k, &units::DIRECTORY_ENTRY, handed)?;
            entries += handed;
        }
        rewound = filled == 0;
    }
    call("close", k.close(fd))
}

pub(super) fn disk_src<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    call("getcwd", k.query(Query::WorkingDirectory))?;
    call("chdir", k.chdir(&env.path("tree")))?;
    let result = visit_names(k, env);
    call("chdir", k.chdir(&env.directory))?;
    result
}

fn visit_names<K: Kernel>(k: &mut K, env: &JobEnv) -> Result<(), JobError> {
    let fd = call("open", k.open("dirlist", Open::READ))?;
    let mut buffer = [0; 4096];
    let mut bytes = 0;
    loop {
        match call("read", k.read(fd, &mut buffer))? {
            0 => break,
            read => bytes += read,
        }
    }
    call("close", k.close(fd))?;
    check(bytes == fixture::list_text().len(), "length of dirlist")?;
    units::run(k, &units::NAME_LIST, 1)?;
    let own = k.pid();
    let mut random = Lcg::for_user(env.seed, env.user);
    let mut names: Vec<(String, bool)> = (0..fixture::LIST_NAMES).map(fixture::list_name).collect();
    shuffle(&mut random, &mut names);
    for (name, exists) in names.iter().take(env.loops(fixture::LIST_NAMES as u64) as usize) {
        if *exists {
            call("stat", k.stat(name))?;
            continue;
        }
        // Users share the tree, so a name that is made carries the process: nobody removes another
        // one's file.
        let made = format!("{name}{:05}", own % 100_000);
        let fd = call("creat", k.open(&made, Open::CREAT))?;
        call("close", k.close(fd))?;
        call("unlink", k.unlink(&made))?;
    }
    Ok(())
}
