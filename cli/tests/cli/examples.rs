//! Every command in the program's help and in the documents must be accepted by the program.

use std::fs;
use std::path::{Path, PathBuf};

use berth_cli::arguments::Cli;
use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _, Parser as _};

/// What is wrong with a command line, if anything.
fn refusal(line: &str) -> Option<clap::Error> {
    // The pages write UUID for any.
    let line = line.replace(" UUID", " 9a17439a-85d0-4c53-a3d3-0f68a2eac896");
    let error = Cli::try_parse_from(words(&line)).err()?;
    let shown = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
    (!shown.contains(&error.kind())).then_some(error)
}

/// Words as a shell makes them, up to what is no more of the command: a pipe, a redirection, a remark.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    // Help has its remarks behind three spaces.
    let line = line.split("   ").next().unwrap_or_default();
    for char in line.chars() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '>' | '#' | '&' | ';') if word.is_none() => return words,
            (None, ';' | ')') => break,
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

fn helps(command: &Command, name: &str, found: &mut Vec<(String, String)>) {
    let texts = [command.get_after_help(), command.get_after_long_help()];
    for text in texts.into_iter().flatten() {
        let text = text.to_string();
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| line.starts_with("berth "));
        found.extend(lines.map(|line| (name.to_owned(), line.to_owned())));
    }
    for below in command.get_subcommands() {
        helps(below, &format!("{name} {}", below.get_name()), found);
    }
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// The commands of a page: those of its code blocks, and those in its text, which may omit arguments.
fn commands(page: &str) -> (Vec<String>, Vec<String>) {
    let mut found = Vec::new();
    let text: String = page.split("```").step_by(2).collect();
    let named = text.split('`').skip(1).step_by(2);
    let named = named.filter(|words| words.starts_with("berth ") && !words.contains("COMMAND"));
    // A command may continue on the next line of the page.
    let named = named.map(|words| words.replace('\n', " ")).collect();
    let blocks = page.split("```").skip(1).step_by(2);
    for block in blocks {
        let joined: Vec<&str> = block.split("\\\n").map(str::trim_start).collect();
        let joined = joined.join(" ");
        for line in joined.lines() {
            let line = line.trim_start_matches("$ ").trim_start_matches("# ");
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            let line = line.strip_prefix("target/debug/").unwrap_or(line);
            if line.starts_with("berth ") {
                found.push(line.to_owned());
            }
        }
    }
    (found, named)
}

#[test]
fn every_example_of_the_help_is_a_command() {
    let mut found = Vec::new();
    helps(&Cli::command(), "berth", &mut found);
    assert!(found.len() > 70, "{} examples", found.len());
    let refused = found.iter().filter_map(|(of, line)| {
        let error = refusal(line)?;
        Some(format!("{of} --help: {line}\n{error}"))
    });
    let refused: Vec<_> = refused.collect();
    assert_eq!(refused, Vec::<String>::new(), "{}", refused.join("\n"));
}

#[test]
fn every_command_that_the_documents_show_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages_found = vec![root.join("README.md")];
    pages(&root.join("docs/guide"), &mut pages_found);
    let mut seen = 0;
    for page in pages_found {
        let (whole, named) = commands(&fs::read_to_string(&page).unwrap());
        let whole = whole.iter().map(|line| (line, refusal(line)));
        let open = [
            ErrorKind::MissingRequiredArgument,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ];
        let named = named.iter().map(|line| {
            let refused = refusal(line).filter(|error| !open.contains(&error.kind()));
            (line, refused)
        });
        for (line, refused) in whole.chain(named) {
            if let Some(error) = refused {
                panic!("{}: {line}\n{error}", page.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} commands");
}

#[test]
fn an_invalid_command_is_detected() {
    for line in [
        "berth guest crate web",
        "berth guest create web --vcpus 1 --ram 64 --imagine x",
        "berth device release",
    ] {
        assert!(refusal(line).is_some(), "{line}");
    }
    for line in [
        "berth agent disable --reason 'memory is replaced' | cat",
        "berth guest list -f json   # all of them",
        "berth --version",
    ] {
        assert!(refusal(line).is_none(), "{line}");
    }
}
