//! The syntax of oslo.config's files: sections, comments, keys with `=` or `:`, and values of several lines.

use std::fmt;

/// One configuration file, as its assignments in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfFile {
    /// The path as the operator wrote it.
    pub name: String,
    pub assignments: Vec<ConfAssignment>,
}

/// `key = value` below a section. Lines of a value are separated by `\n`.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfAssignment {
    pub section: String,
    pub key: String,
    pub value: String,
    pub line: usize,
}

/// Without the value, which may be a secret.
impl fmt::Debug for ConfAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {} (line {})", self.section, self.key, self.line)
    }
}

/// What oslo.config refuses in a line. The text of the line is not repeated: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxFault {
    #[error("this is not UTF-8; save the file as UTF-8")]
    Encoding,
    #[error("a byte order mark is before the first section; save the file as UTF-8 without one")]
    ByteOrderMark,
    #[error("there is no '=' or ':' in this line; write KEY = VALUE")]
    NoAssignment,
    #[error("the key before '=' or ':' is missing; write KEY = VALUE")]
    NoKey,
    #[error("this line is indented and continues no value; begin it in the first column")]
    Continuation,
    #[error("the section does not end with ']'; write [NAME] and nothing after it")]
    SectionEnd,
    #[error("the section has no name; write [NAME]")]
    SectionName,
    #[error("this option is before the first section; write [DEFAULT] above it")]
    NoSection,
}

/// A line that nova-compute would refuse, too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {fault}")]
pub struct SyntaxError {
    pub file: String,
    pub line: usize,
    pub fault: SyntaxFault,
}

/// Reads one file; every wrong line is reported.
///
/// # Errors
///
/// The lines that oslo.config refuses.
pub fn parse(name: &str, content: &[u8]) -> Result<ConfFile, Vec<SyntaxError>> {
    let mut reader = ConfReader::default();
    match std::str::from_utf8(content) {
        Ok(text) => reader.read(text),
        Err(error) => {
            let before = content.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            reader.faults.push((line, SyntaxFault::Encoding));
        }
    }
    if reader.faults.is_empty() {
        return Ok(ConfFile {
            name: name.to_owned(),
            assignments: reader.assignments,
        });
    }
    let errors = reader.faults.into_iter().map(|(line, fault)| SyntaxError {
        file: name.to_owned(),
        line,
        fault,
    });
    Err(errors.collect())
}

#[derive(Default)]
struct ConfReader {
    section: Option<String>,
    /// The value that an indented line continues.
    open: Option<ConfAssignment>,
    assignments: Vec<ConfAssignment>,
    faults: Vec<(usize, SyntaxFault)>,
}

impl ConfReader {
    fn read(&mut self, text: &str) {
        if text.starts_with('\u{feff}') {
            self.faults.push((1, SyntaxFault::ByteOrderMark));
            return;
        }
        // Python reads \r alone as the end of a line, too.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        for (number, line) in text.split('\n').enumerate() {
            if let Err(fault) = self.line(number + 1, line.trim_end_matches(is_space)) {
                self.faults.push((number + 1, fault));
            }
        }
        self.close();
    }

    fn close(&mut self) {
        self.assignments.extend(self.open.take());
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), SyntaxFault> {
        if line.starts_with([' ', '\t']) {
            let open = self.open.as_mut().ok_or(SyntaxFault::Continuation)?;
            open.value.push('\n');
            open.value.push_str(line.trim_start_matches(is_space));
            return Ok(());
        }
        self.close();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or(SyntaxFault::SectionEnd)?;
            if name.is_empty() {
                return Err(SyntaxFault::SectionName);
            }
            self.section = Some(name.to_owned());
            return Ok(());
        }
        let (key, value) = line
            .split_once(['=', ':'])
            .ok_or(SyntaxFault::NoAssignment)?;
        let key = key.trim_matches(is_space);
        if key.is_empty() {
            return Err(SyntaxFault::NoKey);
        }
        self.open = Some(ConfAssignment {
            section: self.section.clone().ok_or(SyntaxFault::NoSection)?,
            key: key.to_owned(),
            value: unquoted(value.trim_matches(is_space)).to_owned(),
            line: number,
        });
        Ok(())
    }
}

/// Python's idea of white space.
pub(crate) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

/// Without the quotes around the first line of a value. A single quotation mark counts as a pair, as in oslo.config.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return match rest {
                "" => rest,
                _ => rest.strip_suffix(quote).unwrap_or(value),
            };
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String, String, usize)> {
        let file = parse("nova.conf", text.as_bytes()).expect("the text is valid");
        let all = file.assignments.into_iter();
        all.map(|it| (it.section, it.key, it.value, it.line))
            .collect()
    }

    fn fault(text: &str) -> (usize, SyntaxFault) {
        let errors = parse("nova.conf", text.as_bytes()).expect_err("the text is wrong");
        (errors[0].line, errors[0].fault)
    }

    #[test]
    fn a_value_ends_at_a_blank_line_a_comment_or_the_next_key() {
        let text = "[a]\nk = one\n  two\n\tthree\n# c\nl: \"x y\"\r\nm = '\n; c\n[b]\nn=a=b:c\n";
        let expected = [
            ("a", "k", "one\ntwo\nthree", 2),
            ("a", "l", "x y", 6),
            ("a", "m", "", 7),
            ("b", "n", "a=b:c", 10),
        ];
        let expected = expected.map(|(s, k, v, n)| (s.to_owned(), k.to_owned(), v.to_owned(), n));
        assert_eq!(read(text), expected);
    }

    #[test]
    fn an_indented_comment_belongs_to_the_value() {
        assert_eq!(read("[a]\nk = one\n  # two\n")[0].2, "one\n# two");
    }

    #[test]
    fn each_wrong_line_has_its_own_error() {
        for (text, line, wrong) in [
            ("k = v\n", 1, SyntaxFault::NoSection),
            ("[a]\n\n  more\n", 3, SyntaxFault::Continuation),
            ("[a] # comment\n", 1, SyntaxFault::SectionEnd),
            ("[]\n", 1, SyntaxFault::SectionName),
            ("[a]\nword\n", 2, SyntaxFault::NoAssignment),
            ("[a]\n= v\n", 2, SyntaxFault::NoKey),
            ("\u{feff}[a]\n", 1, SyntaxFault::ByteOrderMark),
        ] {
            assert_eq!(fault(text), (line, wrong), "{text:?}");
        }
        let errors = parse("nova.conf", b"[a]\nk = 1\n\xff\n").expect_err("it is not UTF-8");
        assert_eq!(
            errors[0].to_string(),
            "nova.conf:3: this is not UTF-8; save the file as UTF-8"
        );
        let errors = parse("nova.conf", b"word\n[b\n").expect_err("two lines are wrong");
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn an_assignment_does_not_show_its_value_when_debugged() {
        let file = parse("nova.conf", b"[a]\npassword = canary\n").expect("valid");
        assert!(!format!("{file:?}").contains("canary"));
    }
}
