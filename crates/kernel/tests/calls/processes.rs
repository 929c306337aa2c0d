//! Processes, signals, memory and IPC through the trait `Kernel`.

use super::common::{run, run_kernel, run_with, units};
use convoy_kernel::{Gate, KernelPreset, Options, Process, World, WorldError};
use convoy_machine::Machine;
use convoy_workload::Errno;
use convoy_workload::api::{Exit, Kernel, Open, Program, Query, Signal, SocketKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[test]
fn children_are_waited_for_and_then_there_are_none() {
    let ran = run(|k| {
        assert_eq!(k.wait(), Err(Errno::ECHILD));
        let own = k.pid();
        let first = k.fork(|_| 3).unwrap();
        let second = k
            .fork(move |k| {
                assert_ne!(k.pid(), own);
                k.sleep(50_000_000);
                4
            })
            .unwrap();
        assert_eq!(k.wait(), Ok((first, Exit::Code(3))));
        assert_eq!(k.wait(), Ok((second, Exit::Code(4))));
        assert_eq!(k.wait(), Err(Errno::ECHILD));
    });
    assert_eq!(ran.world.process_count(), 1);
}

/// Callbacks that RCU has queued.
fn queued(k: &Process) -> u64 {
    k.world().sched().rcu.as_ref().expect("3.0 has RCU").stats().queued
}

#[test]
fn what_readers_may_still_access_is_freed_after_a_grace_period() {
    run_with("3.0", Options::default(), 1, |k| {
        let mut last = queued(k);
        let mut expect = |k: &Process, callbacks, what| {
            let now = queued(k);
            assert_eq!(now - last, callbacks, "{what}");
            last = now;
        };
        let (reader, writer) = k.pipe().unwrap();
        k.close(reader).unwrap();
        expect(k, 1, "the file of one end");
        k.close(writer).unwrap();
        expect(k, 2, "the file of the other end, and the inode");
        for (kind, listening) in [(SocketKind::UnixDatagram, 0), (SocketKind::Tcp, 2)] {
            let (a, b) = k.sockets(kind).unwrap();
            expect(k, listening, "the file and the wait queue of the listening socket");
            k.close(a).unwrap();
            k.close(b).unwrap();
            expect(k, 4, "two files and two wait queues");
        }
        let set = k.sem_create(1).unwrap();
        k.sem_remove(set).unwrap();
        expect(k, 1, "semaphores");
        let segment = k.shm_create(8192).unwrap();
        k.shm_copy(segment, 0, 8192, true).unwrap();
        k.shm_remove(segment).unwrap();
        expect(k, 4, "segment, file, inode, and the node of two pages");
        for (bytes, callbacks) in [(1, 3), (8192, 4)] {
            let fd = k.open("/tmp/f", Open::CREAT).unwrap();
            k.write(fd, &vec![0; bytes]).unwrap();
            k.close(fd).unwrap();
            k.unlink("/tmp/f").unwrap();
            expect(k, callbacks, "file, name, inode, and a node if there are two pages");
        }
        k.fork(|_| 0).unwrap();
        k.wait().unwrap();
        expect(k, 2, "the number and the task");
        k.sleep(100_000_000);
        expect(k, 1, "the credentials of that task");
    });
}

#[test]
fn orphans_go_to_the_first_process() {
    let ran = run(|k| {
        let child = k
            .fork(|k| {
                k.fork(|k| {
                    k.sleep(10_000_000);
                    7
                })
                .unwrap();
                0
            })
            .unwrap();
        assert_eq!(k.wait(), Ok((child, Exit::Code(0))));
        let (orphan, exit) = k.wait().unwrap();
        assert!(orphan > child);
        assert_eq!(exit, Exit::Code(7));
    });
    assert_eq!(ran.world.process_count(), 1);
}

#[test]
fn fork_shares_open_files_and_copies_descriptors() {
    run(|k| {
        let fd = k.open("/tmp/f", Open::CREAT).unwrap();
        k.write(fd, b"abc").unwrap();
        k.fork(move |k| {
            k.write(fd, b"def").unwrap();
            k.close(fd).unwrap();
            0
        })
        .unwrap();
        k.wait().unwrap();
        k.write(fd, b"g").unwrap();
        assert_eq!(k.stat("/tmp/f").unwrap().size, 7, "the offset is shared");
    });
}

#[test]
fn processes_run_out() {
    let options = Options { processes: 3, ..Options::default() };
    let ran = run_with("2.6.25", options, 1, |k| {
        for _ in 0..2 {
            k.fork(|k| {
                k.sleep(1_000_000);
                0
            })
            .unwrap();
        }
        assert_eq!(k.fork(|_| 0), Err(Errno::EAGAIN));
        k.wait().unwrap();
        k.fork(|_| 0).unwrap();
    });
    assert!(ran.world.process_count() <= 3);
}

#[test]
fn a_machine_without_room_for_a_task_fails_the_fork_and_loses_nothing() {
    let ran = run(|k| {
        let mut started = 0;
        let errno = loop {
            match k.fork(|k| {
                k.sleep(1_000_000_000);
                0
            }) {
                Ok(_) => started += 1,
                Err(errno) => break errno,
            }
        };
        assert_eq!(errno, Errno::EAGAIN);
        assert!(started > 100);
        for _ in 0..started {
            k.wait().unwrap();
        }
        assert_eq!(k.wait(), Err(Errno::ECHILD));
    });
    assert_eq!(ran.world.process_count(), 1);
}

#[test]
fn signals_end_the_process_or_are_caught() {
    run(|k| {
        for (signal, number) in [(Signal::Term, 15), (Signal::Kill, 9), (Signal::Usr2, 12)] {
            let child = k
                .fork(|k| {
                    k.user("microsecond", 100_000, || ());
                    let (read, _write) = k.pipe().unwrap();
                    // Nobody writes: only a signal ends this.
                    k.read(read, &mut [0; 1]).unwrap_err();
                    0
                })
                .unwrap();
            k.kill(child, signal).unwrap();
            assert_eq!(k.wait(), Ok((child, Exit::Signal(number))));
        }
        k.catch(Signal::Usr2).unwrap();
        let own = k.pid();
        for _ in 0..10 {
            k.kill(own, Signal::Usr2).unwrap();
        }
        assert_eq!(k.caught(), 10);
        assert_eq!(k.catch(Signal::Kill), Err(Errno::EINVAL));
        assert_eq!(k.kill(30_000, Signal::Term), Err(Errno::ESRCH));
    });
}

#[test]
fn a_caught_signal_interrupts_a_sleep() {
    run(|k| {
        let (read, _write) = k.pipe().unwrap();
        let child = k
            .fork(move |k| {
                k.catch(Signal::Usr2).unwrap();
                assert_eq!(k.read(read, &mut [0; 1]), Err(Errno::EINTR));
                assert_eq!(k.caught(), 1);
                let set = k.sem_create(0).unwrap();
                assert_eq!(k.sem_op(set, -1), Err(Errno::EINTR));
                k.sem_remove(set).unwrap();
                assert_eq!(k.caught(), 2);
                5
            })
            .unwrap();
        for _ in 0..2 {
            k.sleep(20_000_000);
            k.kill(child, Signal::Usr2).unwrap();
        }
        assert_eq!(k.wait(), Ok((child, Exit::Code(5))));
    });
}

/// Sends `total` bytes from a child to the caller through two descriptors.
fn stream(k: &mut Process, read: i32, write: i32, total: usize) {
    k.fork(move |k| {
        k.close(read).unwrap();
        let block: Vec<u8> = (0..10_000).map(|index| (index % 251) as u8).collect();
        let mut sent = 0;
        while sent < total {
            let start = sent % block.len();
            let end = block.len().min(start + total - sent);
            sent += k.write(write, &block[start..end]).unwrap();
        }
        0
    })
    .unwrap();
    k.close(write).unwrap();
    let mut buffer = [0; 777];
    let mut got = 0;
    loop {
        match k.read(read, &mut buffer).unwrap() {
            0 => break,
            length => {
                for (index, byte) in buffer[..length].iter().enumerate() {
                    assert_eq!(*byte, ((got + index) % 10_000 % 251) as u8);
                }
                got += length;
            }
        }
    }
    assert_eq!(got, total);
    assert_eq!(k.wait().unwrap().1, Exit::Code(0));
}

#[test]
fn a_full_pipe_blocks_its_writer_and_an_empty_one_its_reader() {
    run(|k| {
        let (read, write) = k.pipe().unwrap();
        stream(k, read, write, 300_000);
        let (read, write) = k.pipe().unwrap();
        k.close(read).unwrap();
        assert_eq!(k.write(write, b"x"), Err(Errno::EPIPE));
        assert_eq!(k.seek(write, 0), Err(Errno::ESPIPE));
    });
}

#[test]
fn sockets_of_every_kind() {
    run(|k| {
        for kind in [SocketKind::Tcp, SocketKind::UnixStream] {
            let (a, b) = k.sockets(kind).unwrap();
            stream(k, a, b, 400_000);
            k.close(a).unwrap();
        }
        for kind in [SocketKind::Udp, SocketKind::UnixDatagram] {
            let (a, b) = k.sockets(kind).unwrap();
            k.write(a, b"one").unwrap();
            k.write(a, b"three").unwrap();
            let mut buffer = [0; 10];
            assert_eq!(k.read(b, &mut buffer), Ok(3));
            assert_eq!(k.read(b, &mut buffer), Ok(5));
            k.write(b, b"back").unwrap();
            assert_eq!(k.read(a, &mut buffer), Ok(4));
            k.close(a).unwrap();
            assert_eq!(k.write(b, b"x"), Err(Errno::EPIPE));
            k.close(b).unwrap();
        }
    });
}

#[test]
fn semaphores_hand_the_turn_back_and_forth() {
    run(|k| {
        let (ping, pong) = (k.sem_create(0).unwrap(), k.sem_create(0).unwrap());
        let memory = k.shm_create(2048).unwrap();
        k.fork(move |k| {
            for _ in 0..50 {
                k.sem_op(ping, -1).unwrap();
                k.shm_copy(memory, 0, 2048, true).unwrap();
                k.sem_op(pong, 1).unwrap();
            }
            0
        })
        .unwrap();
        for _ in 0..50 {
            k.sem_op(ping, 1).unwrap();
            k.sem_op(pong, -1).unwrap();
        }
        assert_eq!(k.wait().unwrap().1, Exit::Code(0));
        assert_eq!(k.shm_copy(memory, 1, 2048, true), Err(Errno::EINVAL));
        k.shm_remove(memory).unwrap();
        assert_eq!(k.shm_remove(memory), Err(Errno::EINVAL));
        k.fork(move |k| i32::from(k.sem_op(ping, -1) == Err(Errno::EINVAL))).unwrap();
        k.sleep(10_000_000);
        k.sem_remove(ping).unwrap();
        assert_eq!(k.wait().unwrap().1, Exit::Code(1), "removal wakes the sleeper");
        assert_eq!(k.sem_op(ping, 1), Err(Errno::EINVAL));
    });
}

#[test]
fn the_heap_grows_faults_and_shrinks() {
    run(|k| {
        assert_eq!(k.sbrk(-1), Err(Errno::ENOMEM));
        k.sbrk(1 << 20).unwrap();
        k.touch_heap(64 << 10, 128).unwrap();
        k.touch_heap(64 << 10, 128).unwrap();
        assert_eq!(k.touch_heap(2 << 20, 128), Err(Errno::EINVAL));
        assert_eq!(k.sbrk(1 << 40), Err(Errno::ENOMEM));
        k.sbrk(-(1 << 20)).unwrap();
    });
}

#[test]
fn memory_is_conserved() {
    let options = Options { memory: 1 << 30, ..Options::default() };
    let before = (1 << 30) / 4096;
    let ran = run_with("2.6.25", options, 1, |k| {
        for round in 0..20 {
            k.fork(move |k| {
                k.sbrk(1 << 20).unwrap();
                k.touch_heap(1 << 20, 128).unwrap();
                k.fork(|k| {
                    k.sbrk(-(1 << 19)).unwrap();
                    k.touch_heap(1 << 19, 4096).unwrap();
                    0
                })
                .unwrap();
                k.wait().unwrap();
                let fd = k.open(&format!("/tmp/{round}"), Open::CREAT).unwrap();
                k.write(fd, &[0; 9000]).unwrap();
                k.unlink(&format!("/tmp/{round}")).unwrap();
                let (read, write) = k.pipe().unwrap();
                k.write(write, &[1; 6000]).unwrap();
                k.read(read, &mut [0; 5000]).unwrap();
                0
            })
            .unwrap();
            assert_eq!(k.wait().unwrap().1, Exit::Code(0));
        }
        k.fork(|k| k.exec(Program::True, "").0).unwrap();
        assert_eq!(k.wait().unwrap().1, Exit::Code(0));
    });
    let lost = before - ran.world.free_pages();
    // The first process wrote a few pages after each fork and keeps those.
    assert!(lost <= 22 * 4, "{lost} pages are lost");
}

#[test]
fn memory_runs_out() {
    let options = Options { memory: 1024 * 4096, ..Options::default() };
    run_with("2.6.25", options, 1, |k| {
        k.sbrk(990 * 4096).unwrap();
        k.fork(|k| {
            k.touch_heap(400 * 4096, 4096).unwrap();
            k.sleep(100_000_000);
            0
        })
        .unwrap();
        k.sleep(20_000_000);
        assert_eq!(k.touch_heap(900 * 4096, 4096), Err(Errno::ENOMEM));
        assert_eq!(k.wait().unwrap().1, Exit::Code(0));
        k.touch_heap(900 * 4096, 4096).unwrap();
    });
}

/// Starts a program ten times, with `events` acquisitions for each start of a shell, and counts the
/// acquisitions of the big kernel lock.
fn bkl_of(name: &str, terminal: bool, program: Program, events: f64) -> u64 {
    let options = Options { terminal, ..Options::default() };
    let mut kernel = super::common::kernel(name);
    kernel.bkl_traffic.events_per_shell = events;
    let ran = run_kernel(&kernel, options, 1, move |k| {
        k.mkdir("/tmp/bin").unwrap();
        let fd = k.open("/tmp/bin/name", Open::CREAT).unwrap();
        k.close(fd).unwrap();
        for _ in 0..10 {
            k.fork(move |k| k.exec(program, "/tmp/bin").0).unwrap();
            assert_eq!(k.wait().unwrap().1, Exit::Code(0));
        }
    });
    assert_eq!(ran.world.terminal_files(), 1, "every opened terminal file was closed");
    assert!(ran.machine.now_ns() > 9_000_000, "the shell's own time passes");
    ran.world.counts().bkl.get()
}

#[test]
fn shells_take_the_big_kernel_lock_as_often_as_the_preset_says() {
    let scripts = |name, terminal, events| bkl_of(name, terminal, Program::True, events);
    assert_eq!(scripts("2.6.25", true, 4.0), 40);
    assert_eq!(scripts("2.6.26-rc1", true, 4.0), 40);
    assert_eq!(scripts("2.6.26-rc1", false, 4.0), 40);
    assert_eq!(scripts("2.6.26-rc1", true, 2.5), 25, "a fraction is carried on");
    assert_eq!(scripts("2.6.25", true, 8.0), 80);
    // Two shells, /dev/null, one try of the name service for each kind; 2.6.25 asks for the window
    // size.
    assert_eq!(bkl_of("2.6.26-rc1", true, Program::SystemList, 4.0), 110);
    assert_eq!(bkl_of("2.6.25", true, Program::SystemList, 4.0), 120);
}

/// Sections under the big kernel lock in a run of `body`.
fn sections(kernel: &str, body: fn(&mut Process)) -> u64 {
    run_with(kernel, Options::default(), 1, body).world.counts().bkl.get()
}

#[test]
fn a_switch_of_the_console_takes_the_big_kernel_lock_as_often_as_the_sources_do() {
    for (kernel, switch, answer) in [("2.6.25", 5, 8), ("2.6.26-rc1", 5, 6)] {
        let before = sections(kernel, |_| ());
        let switched = sections(kernel, |k| {
            k.request_console();
            k.release_console();
        });
        let answered = sections(kernel, Process::answer_enter);
        assert_eq!((switched - before, answered - before), (switch, answer), "{kernel}");
    }
}

#[test]
fn programs_report_their_status() {
    run(|k| {
        let status = |k: &mut Process, directory: &'static str| {
            k.fork(move |k| k.exec(Program::SystemList, directory).0).unwrap();
            k.wait().unwrap().1
        };
        k.mkdir("/tmp/d").unwrap();
        assert_eq!(status(k, "/tmp/d"), Exit::Code(0));
        assert_eq!(status(k, "/tmp/none"), Exit::Code(2));
    });
}

#[test]
fn queries_take_the_big_kernel_lock_by_the_period() {
    let count = |kernel, query| {
        let ran = run_with(kernel, Options::default(), 1, move |k| {
            for _ in 0..10 {
                k.query(query).unwrap();
            }
        });
        ran.world.counts().bkl.get()
    };
    assert_eq!(count("2.6.25", Query::Terminal), 21, "two ioctls each, /proc once");
    assert_eq!(count("2.6.26-rc1", Query::Terminal), 1);
    assert_eq!(count("2.6.25", Query::UserDatabase), 2);
    for query in [Query::WorkingDirectory, Query::Ids, Query::System] {
        assert_eq!(count("2.6.25", query), 0);
    }
}

#[test]
fn a_run_leaves_nothing_behind() {
    let ran = run(|k| {
        for _ in 0..3 {
            k.fork(|k| k.exec(Program::True, "").0).unwrap();
        }
        while k.wait().is_ok() {}
    });
    let world = Rc::downgrade(&ran.world);
    drop(ran);
    assert!(world.upgrade().is_none(), "a coroutine or a cycle holds the kernel");
}

#[test]
fn a_calibration_without_a_program_is_refused() {
    let preset = super::common::preset(2);
    let _machine = Machine::new(&preset, 1, 10).unwrap();
    let kernel = KernelPreset::named("2.6.25").unwrap();
    let mut units = units();
    units.remove("list_program");
    let error = World::new(&kernel, &preset, &units, Options::default()).err().unwrap();
    assert!(matches!(error, WorldError::Unit { unit: "list_program" }));
}

/// Users passed one by one through the mutex of a pipe: 256 of them needed up to 294 ms.
#[test]
fn a_gate_lets_everybody_go_for_one_wakeup_each() {
    const USERS: u32 = 40;
    let passed = Rc::new(RefCell::new(Vec::new()));
    let opened = Rc::new(Cell::new((0, 0)));
    let (inner, times) = (Rc::clone(&passed), Rc::clone(&opened));
    run_with("2.6.26-rc1", Options::default(), 1, move |k| {
        let gate = Rc::new(Gate::closed());
        for _ in 0..USERS {
            let (gate, passed) = (Rc::clone(&gate), Rc::clone(&inner));
            let user = move |k: &mut Process| {
                k.pause_at(&gate);
                passed.borrow_mut().push(k.now());
                0
            };
            k.fork(user).unwrap();
        }
        k.sleep(50_000_000);
        assert!(inner.borrow().is_empty(), "nobody passes a closed gate");
        let begin = k.now();
        k.open_gate(&gate);
        times.set((begin, k.now()));
        for _ in 0..USERS {
            k.wait().unwrap();
        }
    });
    let ((begin, end), passed) = (opened.get(), passed.borrow());
    let each_ns = (end - begin) / u64::from(USERS);
    assert!((100..20_000).contains(&each_ns), "a wakeup each: {each_ns} ns");
    let last_ns = passed.iter().max().expect("users") - begin;
    assert!(passed.len() == USERS as usize && last_ns < 10_000_000, "{last_ns} ns");
}
