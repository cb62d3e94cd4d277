//! `berth explain CODE`: the meaning of an error number, its cause and what to do. The text is that of the guide.

use std::io::Write;

use berth_output::{ErrorCode, ExitCode, Failure};

/// The page of the guide with a section for each number.
const PAGE: &str = include_str!("../../../docs/guide/howto/troubleshoot.md");

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  berth explain BERTH-E0301\n  berth explain E0301\n  berth explain"
)]
pub struct ExplainArguments {
    /// The number of an error message, such as E0301; without it, all numbers are listed.
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Prints what an error number means.
///
/// Errors: usage if there is no such number; an output error if it cannot be written.
pub fn run(arguments: &ExplainArguments, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let Some(given) = &arguments.code else {
        for code in ErrorCode::ALL {
            writeln!(out, "{code}  {}", one_line(code.meaning()))?;
        }
        return Ok(ExitCode::Done);
    };
    let code = read(given).ok_or_else(|| {
        Failure::new(
            ErrorCode::Usage,
            format!("there is no error number {given:?}"),
        )
        .hint("berth explain")
    })?;
    writeln!(out, "{code}: {}", one_line(code.meaning()))?;
    writeln!(out, "exit code: {}", code.exit())?;
    if let Some(section) = section(code) {
        writeln!(out, "\n{}", plain(section))?;
    }
    Ok(ExitCode::Done)
}

/// Reads `BERTH-E0301`, `E0301`, `e301` or `301`.
fn read(text: &str) -> Option<ErrorCode> {
    let text = text.trim().to_ascii_uppercase();
    let digits = text.strip_prefix("BERTH-").unwrap_or(&text);
    let number: u16 = digits.strip_prefix('E').unwrap_or(digits).parse().ok()?;
    ErrorCode::ALL
        .iter()
        .copied()
        .find(|code| code.number() == number)
}

/// The section of a number in the guide, without its heading.
fn section(code: ErrorCode) -> Option<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("\n### {code}\n"))?;
    let ends = ["\n#", "\n**Next"].map(|end| rest.find(end));
    let end = ends.into_iter().flatten().min().unwrap_or(rest.len());
    Some(rest[..end].trim())
}

/// The text of a section for a terminal: without the marks of Markdown, and links as their words.
fn plain(section: &str) -> String {
    let mut text = String::with_capacity(section.len());
    let mut rest = section;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        match link.split_once("](").and_then(|(words, target)| {
            let (_, after) = target.split_once(')')?;
            (!words.contains('[')).then_some((words, after))
        }) {
            Some((words, after)) => {
                text.push_str(words);
                rest = after;
            }
            None => {
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text.replace("**", "")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(code: &str) -> Result<String, Failure> {
        let mut out = Vec::new();
        let arguments = ExplainArguments {
            code: Some(code.to_owned()),
        };
        run(&arguments, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_error_number_is_explained_with_its_cause_and_fix() {
        for code in ErrorCode::ALL {
            let text = explained(&code.to_string()).unwrap();
            let starts = format!("{code}: ");
            assert!(text.starts_with(&starts), "{text}");
            for word in ["Cause", "Fix"] {
                assert!(text.contains(word), "{code} has no {word}\n{text}");
            }
            assert!(!text.contains("**") && !text.contains("]("), "{text}");
        }
    }

    #[test]
    fn an_error_number_may_be_shortened_and_an_unknown_one_is_refused() {
        let whole = explained("BERTH-E0301").unwrap();
        for short in ["E0301", "e0301", "E301", "301"] {
            assert_eq!(explained(short).unwrap(), whole);
        }
        assert_eq!(
            explained("E0999").unwrap_err().explain(),
            "error: there is no error number \"E0999\" [BERTH-E0001]\nhint: berth explain\n"
        );
    }
}
