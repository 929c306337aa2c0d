//! What fails is named with its cause, and costs nothing that was measured.

use convoy_host::inject::Fault;
use convoy_host::{HostRun, run};

use crate::common::skip;
use crate::{Place, Traces, alone, helper_command, helper_error, mix, tiny};

#[test]
fn an_unwritable_place_is_named() {
    // It opens files, which others count.
    let _alone = alone();
    let mix = mix("1 add_int\n");
    let missing =
        HostRun { directories: vec!["/nonexistent/place".into()], ..HostRun::new(mix, vec![1]) };
    let error = run::run(&missing, |_| ()).error.expect("no such directory").to_string();
    assert!(error.contains("/nonexistent/place") && error.contains("--dir"), "{error}");
}

#[test]
fn want_of_descriptors_is_named_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("descriptors");
    let output = helper_command("ulimit -n 5; exec \"$@\"", &place).output().expect("started");
    let error = helper_error(&output);
    assert!(error.contains("EMFILE") && error.contains("ulimit"), "{error}");
    assert_eq!(place.entries(), 0);
}

#[test]
fn a_full_work_directory_is_named_and_leaves_nothing() {
    let _alone = alone();
    let place = Place::new("full");
    // A tmpfs of our own needs a mount namespace; not every machine lets an ordinary user have one.
    let mount = format!("mount -t tmpfs -o size=5m tmpfs '{}'", place.0.display());
    let probe = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &mount]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return skip("a full tmpfs: there is no mount namespace here", false);
    }
    // The listing after the run is made inside the namespace: only there is the tmpfs seen.
    let inside = format!("{mount} && \"$@\"; ls '{}' | sed s/^/left:/", place.0.display());
    let script = format!("exec unshare -rm sh -c '{}' sh \"$@\"", inside.replace('\'', "'\\''"));
    let output = helper_command(&script, &place).output().expect("started");
    let error = helper_error(&output);
    assert!(error.contains("no space left in") && error.contains("--dir"), "{error}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("left:"), "{output:?}");
}

#[test]
fn injected_faults_fail_the_point_with_their_cause_and_keep_the_others() {
    let _alone = alone();
    let place = Place::new("faults");
    let before = Traces::now();
    let cases = [
        ("enospc@disk_wrt:2", "disk_wrt", "ENOSPC"),
        ("emfile@pipe_cpy:1", "pipe_cpy", "EMFILE"),
        ("enomem@fork_test:3", "fork_test", "ENOMEM"),
        ("eaddrinuse@udp_test:2", "udp_test", "EADDRINUSE"),
        ("enospc@shared_memory:1", "shared_memory", "ENOSPC"),
    ];
    let text = "10 disk_wrt\n10 pipe_cpy\n10 fork_test\n10 udp_test\n10 shared_memory\n";
    for (fault, job, errno) in cases {
        for go_on in [false, true] {
            let fault = Some(Fault::parse(fault).expect("valid"));
            let options = HostRun { fault, go_on, ..tiny(mix(text), &[2, 3], &place) };
            let finished = run::run(&options, |_| ());
            assert_eq!(finished.error.is_none(), go_on, "{:?}", finished.error);
            assert_eq!(finished.record.points.len(), if go_on { 2 } else { 1 });
            for point in &finished.record.points {
                let cause = point.failed.as_ref().expect("failed");
                assert!(cause.user.is_some_and(|user| user <= point.users), "{cause:?}");
                assert_eq!(cause.job.as_deref(), Some(job));
                assert_eq!(cause.errno.as_deref(), Some(errno));
                assert!(cause.call.is_some() && cause.text.contains(errno), "{cause:?}");
            }
        }
    }
    assert_eq!(place.entries(), 0);
    before.assert_nothing_new();
}

#[test]
fn a_file_size_limit_is_named() {
    let _alone = alone();
    let place = Place::new("size");
    let output = helper_command("ulimit -f 100; exec \"$@\"", &place).output().expect("started");
    let error = helper_error(&output);
    assert!(error.contains("ulimit -f") && error.contains("EFBIG"), "{error}");
    assert_eq!(place.entries(), 0);
}
