//! Reads a password and prints its hash. Arguments and variables are not accepted for a password, because other users
//! can read them.

use std::io::{self, BufRead, Read, Write};

use berth_identity::{LONGEST_PASSWORD, PasswordError, PasswordHash};
use berth_output::{ErrorCode, Failure};
use console::Term;

pub(super) fn hash(out: &mut dyn Write) -> Result<(), Failure> {
    let terminal = Term::stderr();
    let stdin = io::stdin();
    let is_typed = io::IsTerminal::is_terminal(&stdin) && terminal.is_term();
    let password = if is_typed {
        typed(&terminal)?
    } else {
        piped(stdin.lock())?
    };
    let hash = PasswordHash::of(&password).map_err(refused)?;
    writeln!(out, "{}", hash.reveal())?;
    Ok(())
}

fn refused(error: PasswordError) -> Failure {
    let code = match error {
        PasswordError::Empty | PasswordError::TooLong => ErrorCode::Refused,
        PasswordError::System => ErrorCode::Unavailable,
    };
    Failure::new(code, error.to_string()).hint("give a password of 1 to 4096 bytes")
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::caused(ErrorCode::File, "the password cannot be read", error)
}

/// Prompts twice without echo.
fn typed(terminal: &Term) -> Result<String, Failure> {
    let ask = |words: &str| {
        terminal.write_str(words)?;
        terminal.read_secure_line()
    };
    let first = ask("Password: ").map_err(|error| unreadable(&error))?;
    let second = ask("Again: ").map_err(|error| unreadable(&error))?;
    if first == second {
        return Ok(first);
    }
    Err(
        Failure::new(ErrorCode::Refused, "the two passwords are not the same")
            .hint("run the command again"),
    )
}

/// The first line, without its end. More lines mean that the input is something else.
fn piped(input: impl BufRead) -> Result<String, Failure> {
    let limit = u64::try_from(LONGEST_PASSWORD).unwrap_or(u64::MAX) + 3;
    let mut text = String::new();
    let read = input.take(limit).read_to_string(&mut text);
    read.map_err(|error| unreadable(&error))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.contains('\n') {
        let what = "the input has more than one line";
        return Err(
            Failure::new(ErrorCode::Refused, what).hint("write the password alone, on one line")
        );
    }
    Ok(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piped_password_is_one_line_without_its_end() {
        for (text, password) in [
            ("a b", "a b"),
            ("a\n", "a"),
            ("a\r\n", "a"),
            ("", ""),
            (" a ", " a "),
        ] {
            assert_eq!(piped(text.as_bytes()).unwrap(), password, "{text:?}");
        }
        assert!(piped("a\nb\n".as_bytes()).is_err());
        assert!(piped(&b"\xff"[..]).is_err());
    }
}
