//! The examples at the end of each command's help; a test parses every one.

/// Of `convoy` itself.
pub(crate) const CONVOY: &str = "\
Examples:
  convoy record ./server                then convoy explain, and convoy fix";

/// Of the long help of `convoy`.
pub(crate) const CONVOY_LONG: &str = "\
Examples:
  convoy record ./server                then convoy explain, and convoy fix
  convoy compare './old' './new'        is it faster, slower or the same?
  convoy lab reproduce                  the semaphore convoy of 2008

Also: convoy schema, convoy completions, convoy man.

Exit codes: 0 done, 1 a finding, 2 usage, 3 environment; 126, 127 and above 128 as in a shell.
Results go to standard output, progress and messages to standard error.";

pub(crate) const LAB: &str = "\
Examples:
  convoy lab reproduce
  convoy lab sim --kernel 2.6.26-rc1 --users 500";

pub(crate) const RUN: &str = "\
Examples:
  convoy lab run --users 1,2,10,50 --plot curve.html
  convoy lab run --job fork_test --users 8 --precise 1%";

pub(crate) const SIM: &str = "\
Examples:
  convoy lab sim --kernel 2.6.26-rc1 --users 500 --timeline 5
  convoy lab sim --kernel 3.0 --set kernel.config.hz=250 --machine mine.toml --users 10-100/10";

pub(crate) const LOCKS: &str = "\
Examples:
  convoy lab locks --lock mutex,ticket --threads 2,16
  convoy lab locks --threads 64 --think exp:2000 --kernel 6.18 --cpus 64";

pub(crate) const BENCH: &str = "\
Examples:
  convoy lab bench locks                      which lock should I use here? (half a minute)
  convoy lab bench locks --lock convoy,std,parking-lot --threads 64 --cpus 2 --plot locks.svg";

pub(crate) const REPRODUCE: &str = "\
Examples:
  convoy lab reproduce                        the table of 2008, with its spread
  convoy lab reproduce --only table --scale 40 --seeds 2
  convoy lab reproduce semaphore-2008-ablation --scale 4
  convoy lab reproduce my.toml --set kernel.config.hz=1000
  convoy lab reproduce my.toml --dir cells    run it again after an interrupt: it continues";

pub(crate) const CHECK: &str = "\
Examples:
  convoy lab check mutex rwlock               families or single locks; --list shows them
  convoy lab check opportunistic --budget 100000
  convoy lab check busted                     broken locks that the checker must catch
  convoy lab check ticket --orderings         the weakest orderings with which it passes
  convoy lab check --replay 'cv1:published-fix/two-ups:0,1,2,0'";

pub(crate) const COMPARE: &str = "\
Examples:
  convoy compare './old' './new'
  convoy compare --metric-regex 'ops: (\\d+)' --higher-is-better './a' './b'
  convoy compare @before @after

Exit codes: 0 no candidate is slower, 1 one is, 2 usage, 3 environment.";

pub(crate) const RECORD: &str = "\
Examples:
  convoy record -- ./server --port 80     then: convoy explain
  convoy record -o server.json -- ./server
  convoy record --mutex handoff -- ./server
  convoy record --pid 4711 --seconds 10   a process that runs already

Its exit code is that of the program, or 128 and the number of its signal.";

pub(crate) const TOP: &str = "\
Examples:
  convoy top --pid 4711                   a process and its children; q quits
  convoy top --cgroup system.slice/postgresql.service --once --format json
  convoy top                              all processes of this machine

Keys: q quit, s sort, / filter, c conditions, a all the time, p pause, arrows.
Its exit code is 0, or that of a command that ended.";

pub(crate) const WITH: &str = "\
Examples:
  convoy with --mutex spin -- ./server
  convoy with --lock cache.cc:214=fair -- ./server     one lock alone
  convoy compare './server' 'convoy with --mutex spin -- ./server'

Its exit code is that of the program.";

pub(crate) const PREDICT: &str = "\
Examples:
  convoy predict 12 --cpus 2,8,32,128
  convoy predict server.json --threads 16,64 --policy sleep,handoff --split 4";

pub(crate) const FIX: &str = "\
Examples:
  convoy fix                              the newest record
  convoy fix server.json --split 4";

pub(crate) const RUNS: &str = "\
Examples:
  convoy runs list --last 10
  convoy runs show 12
  convoy runs prune --older-than 90 --dry-run";

pub(crate) const EXPLAIN: &str = "\
Examples:
  convoy explain                          the newest record
  convoy explain 12 --trace run.pftrace
  convoy explain semaphore-2008 --kernel 2.6.26-rc1 --flame run.html";

pub(crate) const DOCTOR: &str = "\
Examples:
  convoy doctor
  convoy doctor ./server                  can this program be recorded?
  convoy doctor --format json             for a bug report";

pub(crate) const LIST: &str = "\
Examples:
  convoy lab list
  convoy lab list kernels
  convoy lab list jobs --format csv";

pub(crate) const REPORT: &str = "\
Examples:
  convoy report server.json               writes report.html
  convoy report before.json after.json -o change.html
  convoy report 12 --predict              a stored record, with its prediction
  convoy report semaphore-2008 --kernel 2.6.26-rc1 --users 25";

pub(crate) const BISECT: &str = "\
Examples:
  convoy lab bisect --good v1.2 --bad main --build 'make -j4' -- ./bench --size 1000
  convoy lab bisect --build make run ./bench  between the commits that git bisect has marked
  convoy lab bisect --resume";

pub(crate) const CALIBRATE: &str = "\
Examples:
  convoy lab calibrate --output my-machine.toml
  convoy lab calibrate units --output my-units.toml";

pub(crate) const SCHEMA: &str = "\
Examples:
  convoy schema > convoy.schema.json";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  convoy completions bash > ~/.local/share/bash-completion/completions/convoy
  convoy completions zsh > ~/.zfunc/_convoy";

pub(crate) const MAN: &str = "\
Examples:
  convoy man | man -l -
  convoy man ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use crate::command::{definition, parse};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// The longest short help, in lines: a screen; of the laboratory a large one.
    const SCREEN: usize = 24;
    const LARGE_SCREEN: usize = 52;

    /// Returns the error of the parser for a command line as one would type it.
    fn refused(line: &str) -> Option<String> {
        // Pipes, redirections and comments belong to the shell, and `…` to the reader.
        let mut words = shell_words::split(line).expect("quotes are closed");
        let shell = |word: &String| ["|", ">", "2>", "#"].contains(&word.as_str());
        words.truncate(words.iter().position(shell).unwrap_or(words.len()));
        words.retain(|word| word != "sudo" && word != "\\");
        let quoted =
            words.iter().filter(|word| word.starts_with("convoy ")).find_map(|w| refused(w));
        let parsed = parse(words);
        quoted.or_else(|| parsed.err().map(|error| format!("{line}: {error}")))
    }

    /// Every command as on a terminal of 80 columns, with the lines of its short help.
    fn commands() -> Vec<(clap::Command, usize)> {
        let mut all = definition().term_width(80);
        all.build();
        let lab = all.find_subcommand("lab").expect("the laboratory");
        let inner = lab.get_subcommands().map(|command| (command.clone(), LARGE_SCREEN));
        let outer = all.get_subcommands().filter(|command| !command.is_hide_set());
        let outer = outer.map(|command| (command.clone(), SCREEN));
        let commands = std::iter::once((all.clone(), SCREEN)).chain(outer).chain(inner);
        commands.filter(|(command, _)| command.get_name() != "help").collect()
    }

    #[test]
    fn every_short_help_fits_a_screen_and_every_example_parses() {
        for (mut command, most) in commands() {
            let name = command.get_name().to_owned();
            let help = command.render_help().to_string();
            let lines = help.lines().count();
            assert!(lines <= most, "{name} -h has {lines} lines:\n{help}");
            let examples = help.lines().filter(|line| line.starts_with("  convoy "));
            let examples: Vec<&str> = examples.collect();
            assert!(help.contains("Examples:\n") && !examples.is_empty(), "{name}");
            for example in examples {
                // The text after two blanks is a comment.
                let line = example.trim().split("   ").next().unwrap_or_default();
                assert_eq!(refused(line), None);
            }
        }
    }

    #[test]
    fn every_option_has_a_text() {
        for (command, _) in commands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let has_text = argument.get_help().is_some_and(|text| !text.to_string().is_empty());
                assert!(has_text, "{} {}", command.get_name(), argument.get_id());
            }
        }
    }

    /// The Markdown pages below `place`, without those of builds.
    fn pages(place: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(place).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                pages(&path, found);
            } else if path.extension().is_some_and(|it| it == "md") && name != "CHANGELOG.md" {
                found.push(path);
            }
        }
    }

    /// The commands of `convoy` in the console blocks of a page.
    fn typed(page: &str) -> Vec<String> {
        let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
        let mut commands = Vec::new();
        for block in blocks {
            let joined = block.replace("\\\n", " ");
            let lines = joined.lines().filter_map(|line| line.strip_prefix("$ "));
            let ours =
                |line: &&str| ["convoy ", "sudo convoy "].iter().any(|it| line.starts_with(it));
            commands.extend(lines.filter(ours).map(str::to_owned));
        }
        commands
    }

    #[test]
    fn every_command_of_the_documents_parses() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a root");
        let mut found = Vec::new();
        pages(root, &mut found);
        let mut count = 0;
        for page in found {
            for line in typed(&fs::read_to_string(&page).expect("a page")) {
                assert_eq!(refused(&line), None, "{}", page.display());
                count += 1;
            }
        }
        assert!(count >= 80, "{count} commands were found");
    }

    #[test]
    fn a_command_that_does_not_parse_is_refused() {
        let page = "```console\n$ convoy lab sim --users 2 \\\n    --bogus 1 # why\n$ make\n```\n";
        let [command] = &typed(page)[..] else { panic!("one command") };
        assert!(refused(command).is_some_and(|error| error.contains("--bogus")));
        assert!(refused("convoy compare 'convoy lab sim --bogus' ./b").is_some());
        assert_eq!(refused("sudo convoy runs export > runs.json   # all"), None);
    }
}
