//! `convoy completions`, `man` and `calibrate`.

use crate::{code, directory, run, stderr, stdout};

#[test]
fn completions_and_manual_pages_are_made_from_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("spin-limit"), "{shell}");
    }
    assert!(stdout(&run(&["man"])).starts_with(".ie"));
    let place = directory("man").join("made/nested");
    let name = place.to_str().expect("UTF-8");
    assert_eq!(code(&run(&["man", name])), Some(0));
    let page = std::fs::read_to_string(place.join("convoy-lab-locks.1")).expect("a page");
    assert!(page.contains("spin\\-limit") && page.contains("Examples"), "{page}");
    let file = place.join("convoy-lab-locks.1/below");
    assert_eq!(code(&run(&["man", file.to_str().expect("UTF-8")])), Some(3), "below a file");
    std::fs::remove_dir_all(place).expect("removed");
}

#[test]
fn calibrate_refuses_what_it_cannot_add_to() {
    let machine = run(&["calibrate", "--add", "x.toml"]);
    assert_eq!(code(&machine), Some(2));
    assert!(stderr(&machine).contains("calibrate units --add"), "{}", stderr(&machine));
    assert_eq!(code(&run(&["calibrate", "units", "--add", "/nonexistent.toml"])), Some(2));
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
