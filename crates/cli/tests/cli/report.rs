//! `convoy report`: a page in one file, of records, of stored runs and of simulated ones.

use crate::hostile::record_of;
use crate::{directory, ends, run, stderr, stdout};

/// Writes a page with these arguments and returns it.
fn page(test: &str, args: &[&str]) -> String {
    let place = directory(test);
    let path = place.path("page.html");
    let output = ends(&[&["report", "--output", path], args].concat(), 0);
    assert!(output.stdout.is_empty(), "the page is the result");
    let page = std::fs::read_to_string(path).expect("the page");
    assert!(page.len() < 1_500_000 && page.ends_with("</html>\n"), "{} bytes", page.len());
    assert!(!page.contains("http:") && !page.contains("https:"), "something of elsewhere");
    page
}

#[test]
fn the_page_of_a_record_has_its_diagnosis_and_names_are_text() {
    let place = directory("report-record");
    let path = place.write("r.json", record_of("\"<script>alert(1)</script>\\u001b[2J\""));
    let page = page("report-one", &[path]);
    let explained = stdout(&run(&["explain", path]));
    let first = explained.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    assert!(page.contains(&format!("<h1>{first}")), "{first}");
    assert!(!page.contains("<script>alert") && !page.contains('\u{1b}'));
    assert!(page.contains("&lt;script&gt;alert(1)"), "the name as text");
    assert!(self::page("report-two", &[path, path]).contains("Before and after"));
}

#[test]
fn the_page_of_a_simulated_run_tells_its_convoy() {
    let args = ["semaphore-2008", "--kernel", "2.6.26-rc1", "--users", "25", "--quiet"];
    let page = page("report-simulated", &args);
    assert!(page.contains("The longest convoy") && page.contains("Schedule hash"));
    for kind in ["flame", "strip", "plot"] {
        assert!(page.contains(&format!("\"kind\":\"{kind}\"")), "{kind}");
    }
    assert!(page.contains("Tasks around the longest convoy") && page.contains("virtual seconds"));
}

#[test]
fn what_cannot_be_a_page_is_refused_before_anything_runs() {
    let output = ends(&["report", "semaphore-2008", "semaphore-2008"], 2);
    assert!(stderr(&output).contains("is not a record of a program"), "{output:?}");
    let output = ends(&["report", "-o", "/nowhere/at/all.html", "semaphore-2008"], 3);
    assert!(stderr(&output).contains("there is no directory"), "{output:?}");
}

#[test]
fn two_records_are_compared_on_the_terminal() {
    let place = directory("two-records");
    let before = place.write("before.json", record_of("\"old\""));
    let after = place.write("after.json", record_of("\"new\""));
    let other = place.write("times.txt", "1\n2\n");
    let text = stdout(&ends(&["compare", before, after], 0));
    for word in ["Threads waited", "Before: ", "After: ", "Waiting by lock", "is no proof"] {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    let output = ends(&["compare", before, other], 2);
    assert!(stderr(&output).contains("name two records"), "{output:?}");
}
