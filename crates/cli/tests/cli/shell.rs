//! `convoy completions`, `man` and `calibrate`.

use crate::{code, directory, ends, run, stderr, stdout};

#[test]
fn completions_and_manual_pages_are_made_from_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let output = ends(&["completions", shell], 0);
        assert!(stdout(&output).contains("spin-limit"), "{shell}");
    }
    assert!(stdout(&run(&["man"])).starts_with(".ie"));
    let place = directory("man");
    ends(&["man", place.path("made/nested")], 0);
    let file = place.path("made/nested/convoy-lab-locks.1");
    let page = std::fs::read_to_string(file).expect("a page");
    assert!(page.contains("spin\\-limit") && page.contains("Examples"), "{page}");
    ends(&["man", &format!("{file}/below")], 3);
}

#[test]
fn calibrate_refuses_what_it_cannot_add_to() {
    let machine = ends(&["calibrate", "--add", "x.toml"], 2);
    assert!(stderr(&machine).contains("calibrate units --add"), "{}", stderr(&machine));
    ends(&["calibrate", "units", "--add", "/nonexistent.toml"], 2);
}

#[test]
fn the_words_of_the_laboratory_go_on_without_their_group() {
    let lab = ["lab", "check", "opportunistic", "--budget", "10"];
    let [new, old] = [run(&lab), run(&lab[1..])];
    assert_eq!((code(&new), stdout(&new)), (code(&old), stdout(&old)));
    // The hint is for a terminal, not for scripts.
    assert_eq!((stderr(&new).as_str(), stderr(&old).as_str()), ("", ""));
    let help = stdout(&run(&["-h"]));
    assert!(help.contains("\n  lab ") && !help.contains("\n  sim "), "{help}");
    let order = ["record", "top", "explain", "fix", "compare", "report", "runs", "predict"];
    let places: Vec<_> = order.iter().map(|name| help.find(&format!("\n  {name} "))).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{help}");
}
