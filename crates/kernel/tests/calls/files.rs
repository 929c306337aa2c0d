//! Files, names and directories through the trait `Kernel`.

use super::common::{run, run_with};
use convoy_kernel::Options;
use convoy_workload::Errno;
use convoy_workload::api::{Kernel, Open};

#[test]
fn a_file_keeps_its_bytes_its_length_and_its_offset() {
    run(|k| {
        let fd = k.open("/tmp/a", Open::CREAT).unwrap();
        assert_eq!(k.write(fd, b"hello world"), Ok(11));
        assert_eq!(k.read(fd, &mut [0; 4]), Err(Errno::EBADF), "opened for writing");
        k.close(fd).unwrap();
        let fd = k.open("/tmp/a", Open::READ_WRITE).unwrap();
        let mut buffer = [0; 20];
        assert_eq!(k.read(fd, &mut buffer[..5]), Ok(5));
        assert_eq!(k.read(fd, &mut buffer[5..]), Ok(6));
        assert_eq!(&buffer[..11], b"hello world");
        assert_eq!(k.read(fd, &mut buffer), Ok(0), "end of file");
        assert_eq!(k.seek(fd, 6), Ok(6));
        assert_eq!(k.write(fd, b"W"), Ok(1));
        assert_eq!(k.seek(fd, 5000), Ok(5000));
        assert_eq!(k.write(fd, b"!"), Ok(1));
        assert_eq!(k.stat("/tmp/a").unwrap().size, 5001);
        k.seek(fd, 6).unwrap();
        assert_eq!(k.read(fd, &mut buffer[..6]), Ok(6));
        assert_eq!(&buffer[..6], b"World\0", "a hole reads as zeros");
        k.close(fd).unwrap();
        assert_eq!(k.close(fd), Err(Errno::EBADF));
        let fd = k.open("/tmp/a", Open::CREAT).unwrap();
        assert_eq!(k.stat("/tmp/a").unwrap().size, 0, "truncated");
        k.close(fd).unwrap();
    });
}

#[test]
fn names_and_their_errors() {
    run(|k| {
        assert_eq!(k.open("/tmp/none", Open::READ), Err(Errno::ENOENT));
        assert_eq!(k.open("", Open::READ), Err(Errno::ENOENT));
        k.mkdir("/tmp/d").unwrap();
        assert_eq!(k.mkdir("/tmp/d"), Err(Errno::EEXIST));
        assert_eq!(k.open("/tmp/d", Open::WRITE), Err(Errno::EISDIR));
        k.chdir("/tmp/d").unwrap();
        let fd = k.open("f", Open::CREAT).unwrap();
        assert_eq!(k.open("f", Open { exclusive: true, ..Open::CREAT }), Err(Errno::EEXIST));
        assert_eq!(k.open("f/x", Open::READ), Err(Errno::ENOTDIR));
        assert_eq!(k.chdir("f"), Err(Errno::ENOTDIR));
        k.link("f", "/tmp/g").unwrap();
        assert_eq!(k.link("f", "/tmp/g"), Err(Errno::EEXIST));
        assert_eq!(k.link("/tmp/d", "/tmp/h"), Err(Errno::EPERM));
        assert_eq!(k.link("f", "/bin/f"), Err(Errno::EPERM), "another file system");
        assert_eq!(k.stat("../g").unwrap().links, 2);
        assert_eq!(k.rmdir("/tmp/d"), Err(Errno::ENOTEMPTY));
        assert_eq!(k.rmdir("f"), Err(Errno::ENOTDIR));
        assert_eq!(k.unlink("/tmp/d"), Err(Errno::EISDIR));
        k.unlink("f").unwrap();
        assert_eq!(k.unlink("f"), Err(Errno::ENOENT));
        assert_eq!(k.stat("../g").unwrap().links, 1);
        k.close(fd).unwrap();
        assert_eq!(k.stat("/tmp").unwrap().links, 3);
        k.chdir("/").unwrap();
        k.rmdir("/tmp/d").unwrap();
        assert_eq!(k.stat("/tmp").unwrap().links, 2);
        assert!(k.stat("/tmp/../bin/sh").unwrap().size > 0);
        assert_eq!(k.rmdir("/tmp"), Err(Errno::EPERM), "a mount");
    });
}

#[test]
fn a_file_without_names_lives_until_its_last_close() {
    let ran = run(|k| {
        let fd = k.open("/tmp/a", Open { read: true, ..Open::CREAT }).unwrap();
        k.write(fd, &[7; 10_000]).unwrap();
        k.unlink("/tmp/a").unwrap();
        assert_eq!(k.stat("/tmp/a"), Err(Errno::ENOENT));
        k.seek(fd, 0).unwrap();
        let mut buffer = [0; 10_000];
        assert_eq!(k.read(fd, &mut buffer), Ok(10_000));
        assert!(buffer.iter().all(|&byte| byte == 7));
        k.close(fd).unwrap();
    });
    assert_eq!(ran.world.tmpfs_pages(), 0);
}

#[test]
fn a_full_tmpfs_says_so_and_gives_back_what_is_removed() {
    let options = Options { tmpfs: 4 * 4096, ..Options::default() };
    let ran = run_with("2.6.25", options, 1, |k| {
        let fd = k.open("/tmp/a", Open::CREAT).unwrap();
        assert_eq!(k.write(fd, &vec![1; 5 * 4096]), Ok(4 * 4096), "as much as there is room for");
        assert_eq!(k.write(fd, &[1; 1]), Err(Errno::ENOSPC));
        k.close(fd).unwrap();
        let other = k.open("/tmp/b", Open::CREAT).unwrap();
        assert_eq!(k.write(other, &[1; 1]), Err(Errno::ENOSPC));
        k.unlink("/tmp/a").unwrap();
        assert_eq!(k.write(other, &[1; 1]), Ok(1));
        k.close(other).unwrap();
    });
    assert_eq!(ran.world.tmpfs_pages(), 1);
}

#[test]
fn descriptors_run_out_and_the_lowest_is_given_out_first() {
    let options = Options { open_files: 5, ..Options::default() };
    run_with("2.6.25", options, 1, |k| {
        // 0 to 2 are the terminal.
        assert_eq!(k.open("/dev/null", Open::READ), Ok(3));
        assert_eq!(k.open("/dev/null", Open::READ), Ok(4));
        assert_eq!(k.open("/dev/null", Open::READ), Err(Errno::EMFILE));
        assert_eq!(k.pipe(), Err(Errno::EMFILE));
        k.close(3).unwrap();
        assert_eq!(k.pipe(), Err(Errno::EMFILE), "one free descriptor is not enough for two");
        assert_eq!(k.open("/dev/null", Open::READ), Ok(3));
    });
}

#[test]
fn directories_are_read_in_buffers_and_again_after_a_seek() {
    run(|k| {
        k.mkdir("/tmp/d").unwrap();
        for index in 0..50 {
            let fd = k.open(&format!("/tmp/d/{index}"), Open::CREAT).unwrap();
            k.close(fd).unwrap();
        }
        let fd = k.open("/tmp/d", Open::READ).unwrap();
        for _ in 0..2 {
            assert_eq!(k.read_directory(fd), Ok(52), "two of them are . and ..");
            assert_eq!(k.read_directory(fd), Ok(0));
            k.seek(fd, 0).unwrap();
        }
        assert_eq!(k.read(fd, &mut [0; 10]), Err(Errno::EISDIR));
        for index in 50..2000 {
            let fd = k.open(&format!("/tmp/d/{index}"), Open::CREAT).unwrap();
            k.close(fd).unwrap();
        }
        let first = k.read_directory(fd).unwrap();
        assert!(first < 2002, "one buffer does not hold them all");
        let mut all = first;
        loop {
            match k.read_directory(fd).unwrap() {
                0 => break,
                more => all += more,
            }
        }
        assert_eq!(all, 2002);
        let file = k.open("/tmp/d/1", Open::READ).unwrap();
        assert_eq!(k.read_directory(file), Err(Errno::ENOTDIR));
    });
}

#[test]
fn long_files_keep_their_length_and_their_pages() {
    let ran = run(|k| {
        let fd = k.open("/tmp/long", Open { read: true, ..Open::CREAT }).unwrap();
        for _ in 0..100 {
            assert_eq!(k.write(fd, &[9; 1024]), Ok(1024));
        }
        k.seek(fd, 99 * 1024).unwrap();
        let mut block = [1; 2048];
        assert_eq!(k.read(fd, &mut block), Ok(1024));
        assert_eq!(block[0], 0, "beyond 16 KiB the bytes are not kept");
        assert_eq!(block[1024], 1, "nothing was read there");
        k.sync().unwrap();
        k.close(fd).unwrap();
    });
    assert_eq!(ran.world.tmpfs_pages(), 25);
}

#[test]
fn symbolic_links_lead_on_and_are_removed_alone() {
    // Walks with references, and walks under RCU.
    for kernel in ["2.6.25", "3.7"] {
        run_with(kernel, Options::default(), 1, |k| {
            k.mkdir("/tmp/real").unwrap();
            k.symlink("real", "/tmp/link").unwrap();
            k.symlink("/tmp/link/file", "/tmp/deep").unwrap();
            assert_eq!(k.stat("/tmp/deep"), Err(Errno::ENOENT), "its target does not exist yet");
            let fd = k.open("/tmp/deep", Open::CREAT).unwrap();
            assert_eq!(k.write(fd, b"through two links"), Ok(17));
            k.close(fd).unwrap();
            assert_eq!(k.stat("/tmp/real/file").map(|stat| stat.size), Ok(17));
            assert_eq!(k.stat("/tmp/link").map(|stat| stat.directory), Ok(true));
            k.chdir("/tmp/link/.").unwrap();
            assert!(k.stat("../deep").is_ok());
            assert_eq!(k.symlink("x", "/tmp/link"), Err(Errno::EEXIST));
            assert_eq!(k.symlink("", "/tmp/empty"), Err(Errno::ENOENT));
            let exclusive = Open { exclusive: true, ..Open::CREAT };
            assert_eq!(k.open("/tmp/deep", exclusive), Err(Errno::EEXIST));
            k.rename("/tmp/link", "/tmp/moved").unwrap();
            assert_eq!(k.stat("/tmp/deep"), Err(Errno::ENOENT), "the way to it has moved");
            k.unlink("/tmp/moved/file").unwrap();
            k.unlink("/tmp/moved").unwrap();
            assert!(k.stat("/tmp/real").is_ok());
            k.symlink("/tmp/b", "/tmp/a").unwrap();
            k.symlink("a", "/tmp/b").unwrap();
            for loops in ["/tmp/a", "/tmp/b/c"] {
                assert_eq!(k.stat(loops), Err(Errno::ELOOP));
                assert_eq!(k.open(loops, Open::READ), Err(Errno::ELOOP));
                assert_eq!(k.open(loops, Open::CREAT), Err(Errno::ELOOP));
            }
            k.link("/tmp/a", "/tmp/twin").unwrap();
            assert_eq!(k.stat("/tmp/twin"), Err(Errno::ELOOP), "a name of the link itself");
        });
    }
}
