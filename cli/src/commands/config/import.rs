//! `berth config import`: a nova.conf becomes a berth.toml, with a report of what became of each option.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf, absolute};

use berth_config::{regular_file, table};
use berth_files::{make_folders, replace, replace_secret};
use berth_import::{ConfFile, ImportRequest, ImportedConfig, berth_toml, import, parse};
use berth_output::{ErrorCode, ExitCode, Failure};
use serde_json::{Value as Json, json};

/// Larger than any nova.conf: a larger file is a mistake.
const LARGEST_FILE: u64 = 1 << 20;

/// The arguments of `berth config import`.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArguments {
    /// A nova.conf, or a folder whose *.conf are read in the order of their names. An option of a later file replaces that of an earlier one.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write.
    #[arg(long, value_name = "FILE", default_value = berth_config::FILE)]
    output: PathBuf,
    /// The folder for the files with passwords. Only their owner may read them.
    #[arg(long, value_name = "DIRECTORY", default_value = "/etc/berth/secrets")]
    secrets: PathBuf,
    /// Write nothing; print the report and the text of the file.
    #[arg(long)]
    dry_run: bool,
    /// Replace files that exist.
    #[arg(long)]
    replace: bool,
    /// The form of the report.
    #[arg(short, long, value_enum, default_value_t = ReportForm::Text)]
    format: ReportForm,
}

/// The form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReportForm {
    Text,
    Json,
}

pub(super) fn run(arguments: &ImportArguments, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let files = read(&arguments.files)?;
    let secrets = absolute(&arguments.secrets)?;
    let imported = import(&ImportRequest {
        files: &files,
        secrets: &secrets,
        check: &accepts,
    });
    if !arguments.dry_run {
        if !arguments.replace {
            refuse_existing(&arguments.output, &imported)?;
        }
        write(&arguments.output, &secrets, &imported)?;
    }
    match arguments.format {
        ReportForm::Text => print_text(arguments, &imported, out)?,
        ReportForm::Json => {
            let document = document(arguments, &imported);
            writeln!(out, "{document:#}")?;
        }
    }
    Ok(ExitCode::Done)
}

/// Whether Berth's option takes the value.
fn accepts(section: &str, key: &str, value: &Json) -> Result<(), String> {
    let row = table::find(section, key).ok_or("there is no such option")?;
    let checked = row.kind.check(value);
    let refused = |error: berth_options::ValueError| match error.right.is_empty() {
        true => error.wrong,
        false => format!("{}; {}", error.wrong, error.right),
    };
    checked.map(drop).map_err(refused)
}

fn read(paths: &[PathBuf]) -> Result<Vec<ConfFile>, Failure> {
    let mut files = Vec::new();
    let mut errors = Vec::new();
    for path in in_order(paths)? {
        let (content, _) =
            regular_file::read(&path, LARGEST_FILE).map_err(|error| unreadable(&path, &error))?;
        match parse(&path.display().to_string(), &content) {
            Ok(file) => files.push(file),
            Err(wrong) => errors.extend(wrong),
        }
    }
    if errors.is_empty() {
        return Ok(files);
    }
    let what = "nova-compute would not read this configuration, and nothing was written";
    let failure = Failure::new(ErrorCode::Syntax, what);
    let failure = errors
        .iter()
        .fold(failure, |failure, error| failure.cause(error));
    Err(failure.hint("correct these lines, then repeat the command"))
}

/// The files, with the `*.conf` of each folder in the order of their names.
fn in_order(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
        let entries: Result<Vec<PathBuf>, _> = entries.map(|it| it.map(|it| it.path())).collect();
        let mut inside = entries.map_err(|error| unreadable(path, &error))?;
        inside.retain(|it| is_read_from_a_folder(it));
        inside.sort();
        all.append(&mut inside);
    }
    Ok(all)
}

/// Whether oslo.config reads this file of a folder: `*.conf`, which hidden files do not match.
fn is_read_from_a_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".conf") && !name.starts_with(b".")
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let what = format!("{} cannot be read", path.display());
    Failure::caused(ErrorCode::Unreadable, what, error)
        .hint("name a file or folder that this user may read")
}

fn refuse_existing(output: &Path, imported: &ImportedConfig) -> Result<(), Failure> {
    let secrets = imported.secrets.iter().map(|it| it.path.as_path());
    let paths = std::iter::once(output).chain(secrets);
    let existing: Vec<&Path> = paths
        .filter(|it| fs::symlink_metadata(it).is_ok())
        .collect();
    if existing.is_empty() {
        return Ok(());
    }
    let failure = Failure::new(ErrorCode::Refused, "files exist, and nothing was written");
    let existing = existing.into_iter();
    let failure = existing.fold(failure, |failure, path| failure.cause(path.display()));
    Err(failure.hint(
        "name another file with --output and folder with --secrets, or replace these with --replace",
    ))
}

/// Writes the secrets first: a berth.toml never names a file that is not there.
fn write(output: &Path, secrets: &Path, imported: &ImportedConfig) -> Result<(), Failure> {
    let failed = |path: &Path, error: &std::io::Error| {
        let what = format!("{} cannot be written", path.display());
        Failure::caused(ErrorCode::File, what, error)
    };
    if !imported.secrets.is_empty() {
        make_folders(secrets, 0o700).map_err(|error| failed(secrets, &error))?;
    }
    for secret in &imported.secrets {
        let line = format!("{}\n", secret.text);
        replace_secret(&secret.path, line.as_bytes())
            .map_err(|error| failed(&secret.path, &error))?;
    }
    let text = berth_toml(imported);
    replace(output, text.as_bytes(), 0o644).map_err(|error| failed(output, &error))
}

fn print_text(
    arguments: &ImportArguments,
    imported: &ImportedConfig,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    write!(out, "{}", imported.report)?;
    let shown = arguments.output.display();
    if arguments.dry_run {
        writeln!(out, "\n{shown} would be:\n\n{}", berth_toml(imported))?;
    } else {
        let count = imported.secrets.len();
        let secrets = arguments.secrets.display();
        writeln!(
            out,
            "\n{shown} is written, and {count} files with secrets in {secrets}."
        )?;
        writeln!(out, "Check it with: berth config check --config {shown}")?;
    }
    Ok(())
}

fn document(arguments: &ImportArguments, imported: &ImportedConfig) -> Json {
    let secrets: Vec<&Path> = imported
        .secrets
        .iter()
        .map(|it| it.path.as_path())
        .collect();
    json!({
        "output": arguments.output,
        "written": !arguments.dry_run,
        "secrets": secrets,
        "berth_toml": berth_toml(imported),
        "report": imported.report,
    })
}
