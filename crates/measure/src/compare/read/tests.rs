//! The readers against files as the tools write them, and against broken ones.

use super::*;
use crate::compare::series::Series;
use std::path::PathBuf;

/// A directory for one test that goes away with it.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("convoy-read-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("made");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, text).expect("written");
        path
    }

    fn error(&self, name: &str, text: &str) -> String {
        let error = read(&self.write(name, text)).expect_err(name).to_string();
        assert!(error.contains(name) && error.lines().count() == 1, "{error}");
        error
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn hyperfine_has_a_side_for_each_command() {
    let files = Files::new("hyperfine");
    let text = r#"{"results": [
        {"command": "old", "mean": 0.2, "times": [0.1, 0.3], "exit_codes": [0, 0]},
        {"command": "new", "mean": 0.2, "times": [0.2, 0.25, 0.2]}]}"#;
    let sides = read(&files.write("h.json", text)).expect("read");
    assert_eq!(sides.len(), 2);
    assert_eq!(
        (sides[1].label.as_str(), sides[1].series[0].values.as_slice()),
        ("new", &[0.2, 0.25, 0.2][..])
    );
    assert_eq!(sides[0].series[0].unit, "s");
    let failed = text.replace("[0, 0]", "[0, 1]");
    assert!(files.error("f.json", &failed).contains("1 runs of \"old\" failed"));
    let summary = r#"{"results": [{"command": "old", "mean": 0.2, "times": null}]}"#;
    assert!(files.error("s.json", summary).contains("--export-json"));
    let nan = text.replace("0.25", "null");
    assert!(files.error("n.json", &nan).contains("times[1] is null"));
}

#[test]
fn criterion_divides_by_the_iterations() {
    let files = Files::new("criterion");
    let sample = r#"{"sampling_mode":"Linear","iters":[1,2,4],"times":[1000.0,2200.0,4000.0]}"#;
    let path = files.write("target/criterion/group/fast/new/sample.json", sample);
    let values = vec![1e-6, 1.1e-6, 1e-6];
    assert_eq!(read(&path).expect("a file")[0].series[0].values, values);
    let root = files.0.join("target/criterion");
    let sides = read(&root).expect("a folder");
    assert_eq!((sides.len(), sides[0].series[0].benchmark.as_str()), (1, "group/fast"));
    files.write("target/criterion/group/fast/new/benchmark.json", r#"{"full_id": "g/f/10"}"#);
    files.write("target/criterion/group/fast/base/sample.json", sample);
    let sides = read(&root).expect("with a base");
    assert_eq!((sides.len(), sides[0].label.as_str()), (2, "base"));
    assert_eq!(sides[1].series[0].benchmark, "g/f/10");
    assert!(files.error("x.json", r#"{"iters":[1],"times":[1,2]}"#).contains("do not match"));
    assert!(files.error("y.json", r#"{"iters":[0],"times":[1]}"#).contains("below 1"));
}

#[test]
fn go_text_has_several_benchmarks_and_units() {
    let files = Files::new("go");
    let text = "goos: linux\npkg: a/b\nUnit score better=higher\n\
        BenchmarkSort-8   100  2500 ns/op  16 B/op  3 score\n\
        BenchmarkSort-8   100  2600 ns/op  16 B/op  4 score\n\
        BenchmarkCopy-8   7  1.5e3 ns/op  900.5 MB/s\nPASS\nok a/b 1.2s\n";
    let side = read(&files.write("new.txt", text)).expect("read").remove(0);
    let names: Vec<String> = side.series.iter().map(Series::name).collect();
    assert_eq!(side.label, "new");
    let expected =
        ["Sort-8, ns/op", "Sort-8, B/op", "Sort-8, score", "Copy-8, ns/op", "Copy-8, MB/s"];
    assert_eq!(names, expected);
    assert_eq!(side.series[0].unit, "s");
    assert!((side.series[0].values[1] - 2.6e-6).abs() < 1e-18);
    let higher: Vec<bool> = side.series.iter().map(|series| series.higher_is_better).collect();
    assert_eq!(higher, [false, false, true, false, true]);
    let two = format!("{text}pkg: a/c\nBenchmarkSort-8 1 5 ns/op\n");
    let side = read(&files.write("two.txt", &two)).expect("read").remove(0);
    assert_eq!(side.series.last().expect("one").benchmark, "a/c.Sort-8");
    let error = files.error("bad.txt", "BenchmarkSort-8 100 NaN ns/op\n");
    assert!(error.contains("line 1") && error.contains("NaN"), "{error}");
}

#[test]
fn the_load_files_have_a_value_for_each_run_of_a_point() {
    let files = Files::new("aim");
    let head = "Forks,JPM,JPM_C,JPS_C,parent_tm,childU_tm,childS_tm,std_dev,JTI,max_c,min_c\n";
    let row = "10,5820.5,582.0,9.7,1.0,0.5,0.2,0.01,98,1.0,0.9\n";
    let text = format!(
        "{head}{row}20,9000.0,450,7.5,1,1,1,0.1,97,1,1\n{head}{}",
        row.replace("5820.5", "5830.5")
    );
    let side = read(&files.write("reaim.csv", &text)).expect("read").remove(0);
    assert_eq!(side.series.len(), 2);
    assert_eq!(
        (side.series[0].users, side.series[0].values.as_slice()),
        (Some(10), &[5820.5, 5830.5][..])
    );
    assert!(side.series[0].higher_is_better);
    let error = files.error("cut.csv", &format!("{head}10,58\n20\n"));
    assert!(error.contains("line 3"), "{error}");

    let suite = "Benchmark\tVersion\tMachine\tRun Date\nAIM7\t1.1\tquad\tJan 2\n\n\
        Tasks\tJobs/Min\tJTI\tReal\tCPU\tJobs/sec/task\n1\t570.6\t100\t10.2\t8.5\t9.51\n\
        100\t21000.5\t97\t27.7\t50.1\t3.50\n\nBenchmark\tVersion\tMachine\tRun Date\n\
        AIM7\t1.1\tquad\tJan 3\nTasks\tJobs/Min\tJTI\tReal\tCPU\tJobs/sec/task\n\
        1\t572\t100\t10\t8\t9.5\n";
    let side = read(&files.write("suite7.ss", suite)).expect("read").remove(0);
    assert_eq!(side.series[0].values, [570.6, 572.0]);
    assert_eq!(side.series[1].users, Some(100));
    // A folder of such files is a side with a workload for each.
    files.write("all/fserver.csv", &format!("{head}{row}"));
    files.write("all/short.csv", &format!("{head}{row}"));
    let side = read(&files.0.join("all")).expect("read").remove(0);
    let names: Vec<&str> = side.series.iter().map(|series| series.benchmark.as_str()).collect();
    assert_eq!(names, ["fserver", "short"]);
}

#[test]
fn rows_without_a_number_are_left_out_and_named() {
    let files = Files::new("inf");
    let text = "Forks,JPM,JPM_C\n1,inf,inf\n2,-nan,-nan\n4,5820.5,1455.1\n";
    let side = read(&files.write("fast.csv", text)).expect("read").remove(0);
    assert_eq!((side.series.len(), side.series[0].users), (1, Some(4)));
    assert!(side.notes[0].contains("fast.csv: line 2") && side.notes[1].contains("NaN; left out"));
    let error = files.error("none.csv", "Forks,JPM\n1,inf\n");
    assert!(error.contains("no measurements"), "{error}");
}

#[test]
fn what_aim7_and_reaim_print_and_log_is_read() {
    let files = Files::new("printed");
    let reaim = "REAIM Workload\nTimes are in seconds - Child times from tms.cstime\n\n\
        Num     Parent   Child   Child  Jobs per   Jobs/min/  Std_dev  Std_dev  JTI\n\
        Forked  Time     SysTime UTime   Minute     Child      Time     Percent\n\
        1       5.10     0.40    4.61    1200.00    1200.00    0.00     0.00     100\n\
        5       5.60     2.00    23.10   5464.29    1092.86    0.05     0.91     99\n\
        Crossover achieved\nMax Jobs per Minute 5464.29\n";
    let side = read(&files.write("reaim.out", reaim)).expect("read").remove(0);
    assert_eq!((side.series[1].users, &side.series[1].values[..]), (Some(5), &[5464.29][..]));
    let aim7 = "Tasks    jobs/min  jti  jobs/min/task      real       cpu\n    \
        1      568.40  100       568.4000     10.40      0.50   Wed Jun 22 07:58:59 2005\n\n   \
        101    37148.00   87       367.8000     16.10     48.00   Wed Jun 22 07:59:16 2005\n\n\
        AIM Multiuser Benchmark - Suite VII\n   Testing over\n";
    let side = read(&files.write("aim7.out", aim7)).expect("read").remove(0);
    assert_eq!((side.series[1].users, &side.series[1].values[..]), (Some(101), &[37148.0][..]));
    let log = "2 sync_disk_rw 2150 0 40\n2 add_int 80 80 0\n2 add_int 90 80 0\n";
    let side = read(&files.write("logfile.suite7", log)).expect("read").remove(0);
    let job = &side.series[1];
    assert_eq!((job.benchmark.as_str(), &job.values[..]), ("add_int", &[0.08, 0.09][..]));
}

#[test]
fn the_files_that_reaim_leaves_are_read() {
    fn one(side: &Side, at: usize) -> (Option<u32>, String, Vec<f64>) {
        (side.series[at].users, side.series[at].benchmark.clone(), side.series[at].values.clone())
    }
    let files = Files::new("reaim");
    let read = |name: &str, text: &str| read(&files.write(name, text)).expect(name).remove(0);
    let rows = "\
        1      5820.50   5820.50     97.01     1.04    0.85   0.18    0.00  100.00  1.04  1.04\n\
        10    58205.00   5820.50     97.01    10.40    8.50   1.80    0.10   98.00 10.40 10.20\n\
        1      5830.50   5830.50     97.01     1.04    0.85   0.18    0.00  100.00  1.04  1.04\n";
    let side = read("multiuser.ss", rows);
    assert_eq!(one(&side, 0), (Some(1), String::new(), vec![5820.5, 5830.5]));
    assert_eq!(one(&side, 1), (Some(10), String::new(), vec![58_205.0]));

    let stp = "Re-aim Multiuser Test Results\n1 1.04 5820.50 5820.50 100\n\
        5 5.60 5464.29 1092.86 99\n";
    assert_eq!(one(&read("stp_mdata.txt", stp), 1), (Some(5), String::new(), vec![5464.29]));

    let head = "Re-AIM Version 0.1.0 Run Date Nov 22 21:00:01 2026\nTimes are in seconds. \n\n   \
        Jobs/min/ Jobs/sec/ Time:   Time:  Time:   Time:           Running child time\n\
        Forks  Jobs/min   child     child parent  childU childS  std_dev   JTI   :max  :min\n";
    let error = files.error("reaim.log", head);
    assert!(error.contains("rows of its log to multiuser.ss"), "{error}");
    let side = read("patched.log", &format!("{head}{rows}"));
    assert_eq!(one(&side, 1), (Some(10), String::new(), vec![58_205.0]));

    let level_1 = "Parent pid 7\n\nremoving at eol add_int\nFunc add_int called 4 times avg: \
        82.500 max 90\nFunc creat_clo called 2 times avg:  1.000 max 2\n \
        pid:7 elapSec:1.04 SES: 1.04 SET: 1.08\nloop 1\nBig kid pid 8 tiny kid pid 8\n\n\
        Func add_int called 4 times avg: 165.000 max 190\nloop 2\n";
    let side = read("reaim.debuglog", level_1);
    assert_eq!(one(&side, 0), (Some(1), "add_int".to_owned(), vec![0.0825]));
    assert_eq!(one(&side, 2), (Some(2), "add_int".to_owned(), vec![0.165]));
    let level_2 = "pid:1: Name: add_int\npid 8 CUload:2 Test:add_int delta:80 st:1719 seconds  \
        0.08    \npid 9 CUload:2 Test:add_int delta:90 st:1719 seconds  0.09    \nloop 2\n";
    let side = read("debug2.log", level_2);
    assert_eq!(one(&side, 0), (Some(2), "add_int".to_owned(), vec![0.08, 0.09]));

    let single = "Re-aim Workload - Single user test \nDisk iterations 10\n\n\
        Test   Test        Elapsed   Iteration Iteration     Operation\n\
        Number Name        Time(sec) Count     Rate(loops/s) Rate (ops/sec)\n\
        1      add_double   10.03      295       29.41           529411.76 Thousand Double \
        Precision Additions/second\n\n\nActual Completion time:     Sun Nov 22 21:00:11 2026\n";
    let side = read("singleuser.ss", single);
    assert_eq!(one(&side, 0), (None, "add_double".to_owned(), vec![29.41]));
    assert!(side.series[0].higher_is_better && side.series.len() == 1);
}

#[test]
fn every_execution_of_a_point_is_a_value() {
    let files = Files::new("executions");
    let text = r#"{"mix": "shared", "points": [{"users": 2, "jobs_per_min": 110.0, "repeats":
        [{"jobs_per_min": 100.0}, {"jobs_per_min": 120.0}]},
        {"users": 4, "jobs_per_min": 90.0, "repeats": []}]}"#;
    let side = read(&files.write("r1.json", text)).expect("read").remove(0);
    assert_eq!(
        (&side.series[0].values[..], &side.series[1].values[..]),
        (&[100.0, 120.0][..], &[90.0][..])
    );
}

#[test]
fn a_run_record_of_the_first_schema_is_read() {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = manifests.join("../workload/tests/data/schema-1/run.json");
    let side = read(&path).expect("read").remove(0);
    assert_eq!((side.series[0].users, side.series[0].metric.as_str()), (Some(2), "jobs/min"));
}

#[test]
fn broken_files_are_named_with_the_cure() {
    let files = Files::new("broken");
    assert!(files.error("empty.json", "").contains("empty"));
    assert!(files.error("blank.csv", " \n\n").contains("empty"));
    assert!(
        files.error("cut.json", r#"{"results": [{"times": [1.0, 2"#).contains("ends too early")
    );
    assert!(files.error("other.json", r#"{"a": 1}"#).contains("unknown kind"));
    assert!(files.error("prose.txt", "hello world\n").contains("known are"));
    assert!(files.error("none.json", r#"{"results": []}"#).contains("no measurements"));
    let path = files.0.join("binary");
    std::fs::write(&path, [0xff, 0xfe, 0x00, 0x81]).expect("written");
    assert!(read(&path).expect_err("binary").to_string().contains("binary data"));
    assert!(read(&files.0.join("gone")).expect_err("gone").to_string().contains("gone"));
    let empty = files.0.join("folder");
    std::fs::create_dir(&empty).expect("made");
    assert!(read(&empty).expect_err("empty").to_string().contains("no measurements"));
}
