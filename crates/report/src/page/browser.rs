//! Tests of pages as a browser draws them: the script runs in headless Chromium.

use std::io::{ErrorKind, Write as _};
use std::process::Command;

use super::tests::{page, record};
use super::*;
use crate::plot::{Axis, Panel, Point, Series};
use crate::table::{Cell, Column};

/// Returns the elements of a page after its script ran in a window of this width in pixels; `None`
/// without a browser.
fn drawn(name: &str, page: &str, width: u32) -> Option<String> {
    let place =
        std::env::temp_dir().join(format!("convoy-page-{name}-{width}-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    let file = place.join("page.html");
    std::fs::write(&file, page).expect("written");
    // Without its sandbox it also runs as root in a container.
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", place.join("profile").display()))
        .args(["--dump-dom", &format!("file://{}", file.display())])
        .output();
    let _left_for_the_system = std::fs::remove_dir_all(&place);
    match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // libtest shows what `eprintln!` prints for tests that fail only.
            let _not_read = writeln!(std::io::stderr(), "skipped: no chromium");
            None
        }
        output => {
            let text = String::from_utf8(output.expect("it starts").stdout).expect("UTF-8");
            let body = text.split_once("id=\"sections\">").expect("the figures").1;
            let body = body.split_once("<script").expect("the data").0;
            Some(
                text.split_once("<h1>").expect("a diagnosis").1[..]
                    .split("<div id")
                    .next()?
                    .to_owned()
                    + body,
            )
        }
    }
}

fn curves(title: &str) -> Block {
    fn axis(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: Scale::Linear }
    }
    let points = (1..5).map(|at| Point { x: f64::from(at), y: 2.0, lo: 1.0, hi: 3.0 }).collect();
    let series = vec![Series { name: "fair".to_owned(), points }];
    let panel = Panel { title: title.to_owned(), x: axis("threads"), y: axis("per s"), series };
    Block::plot(&Plot { title: title.to_owned(), subtitle: String::new(), panels: vec![panel] })
}

#[test]
fn words_between_backticks_are_code_in_every_heading() {
    let table = Table::new("Waits of `cache`", vec![Column::text("")]);
    let mut page = Page::new("./server", "Threads wait for `cache`.");
    page.section("Locks of `main`", vec![curves("Runs of `main`"), Block::table(&table)]);
    page.section("Rest", vec![Block::folded("`log` and 2 more", vec![Block::text("little")])]);
    let Some(drawn) = drawn("headings", &page.to_html(), 1000) else { return };
    assert!(!drawn.contains('`'), "{drawn}");
    for (word, times) in [("cache", 2), ("main", 3), ("log", 1)] {
        let code = format!("<code>{word}</code>");
        assert_eq!(drawn.matches(&code).count(), times, "{word}: {drawn}");
    }
}

#[test]
fn no_legend_is_empty() {
    let mut page = Page::new("./server", "Threads wait.");
    let idle = json!({ "kind": "strip", "lanes": [], "acts": ["waits", "holds"], "tags": [],
        "unseen": 9, "unit": 1, "seconds": 1.0, "waiting": [0.0], "phase": 1.0, "notes": [] });
    let stacks = [(vec!["main".to_owned(), "cache".to_owned()], 5)];
    page.section("Figures", vec![curves("Curves"), Block(idle), Block::flame(&stacks)]);
    let Some(drawn) = drawn("legends", &page.to_html(), 1000) else { return };
    assert!(drawn.contains("class=\"strip\"") && drawn.contains("u-legend"), "{drawn}");
    let legends: Vec<&str> = drawn.split("<ul class=\"legend\">").skip(1).collect();
    assert!(!legends.is_empty() && legends.iter().all(|one| one.starts_with("<li>")), "{drawn}");
    assert!(drawn.contains("9 threads: 9 of which no step was recorded."), "{drawn}");
    // A live legend of curves has a place for values, which is empty until a pointer is there.
    assert!(!drawn.contains("u-live") && !drawn.contains("u-value"), "{drawn}");
}

#[test]
fn a_table_that_is_cut_at_400_pixels_says_so() {
    let columns: Vec<Column> =
        (0..9).map(|at| Column::number(&format!("Column {at}"), "s")).collect();
    let mut table = Table::new("Wide", columns);
    table.row((0..9).map(|at| Cell::text(format!("{at}00000.0"))).collect());
    let mut page = Page::new("./server", "Threads wait.");
    page.section("Locks", vec![Block::table(&table)]);
    let page = page.to_html();
    let Some(narrow) = drawn("hint", &page, 400) else { return };
    let wide = drawn("hint", &page, 1400).expect("it was there before");
    let hint = "class=\"sideways screen\">More columns";
    let hidden = "class=\"sideways screen\" hidden=\"\">More columns";
    assert!(narrow.contains(hint) && !narrow.contains(hidden), "{narrow}");
    assert!(wide.contains(hidden) && !wide.contains(hint), "{wide}");
}

#[test]
fn a_record_is_drawn_whole() {
    let page = page(&record("work (w.c:7)", 4, 100));
    let Some(drawn) = drawn("record", &page, 400) else { return };
    for part in ["The whole run", "class=\"strip\"", "class=\"flame\"", "Where this comes from"] {
        assert!(drawn.contains(part), "no {part}: {drawn}");
    }
    assert!(!drawn.contains('`'), "{drawn}");
}
