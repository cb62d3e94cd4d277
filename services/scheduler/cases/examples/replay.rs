//! `replay scheduler replay --cases FILE`: what `berth scheduler replay --cases FILE` does, with this crate alone.

#![allow(clippy::print_stderr, reason = "a program tells what is wrong there")]

use std::env;
use std::fs::File;
use std::io::{self, BufWriter};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["scheduler", "replay", "--cases", path] = words.as_slice() else {
        eprintln!("usage: replay scheduler replay --cases FILE");
        return ExitCode::from(64);
    };
    let ended = File::open(path)
        .map_err(|error| error.to_string())
        .and_then(|file| {
            let out = BufWriter::new(io::stdout().lock());
            berth_scheduler_cases::replay(file, out).map_err(|error| error.to_string())
        });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}
