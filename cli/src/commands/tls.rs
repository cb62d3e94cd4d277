//! `berth tls`: a small certificate authority for the controller and the hosts of one cloud. It works on files only; each host gets its files
//! by copy.

mod authority;
pub mod expiry;
mod names;
mod settings;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use berth_output::{ErrorCode, ExitCode, Failure, ListFormat, Listing};
use berth_serve::{Certificate, CertificatePurpose};
use serde_json::json;

use authority::{CERTIFICATE, REVOKED, TlsAuthority};
use names::CertificateNames;
use settings::IssuedCertificates;

/// Where the files are, unless the command says otherwise.
const FOLDER: &str = "/etc/berth/tls";
const DAY: Duration = Duration::from_hours(24);

#[derive(Debug, clap::Args)]
pub struct TlsArguments {
    #[command(subcommand)]
    command: TlsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TlsCommand {
    /// Make an authority, and certificates for the controller and the hosts. In a folder with an authority, make the
    /// certificates of further hosts.
    #[command(
        after_help = "Examples:\n  berth tls init --controller controller,192.0.2.10 --host compute1,192.0.2.11 --host compute2,192.0.2.12\n  \
                            berth tls init --host compute3,192.0.2.13\n  \
                            berth tls init --client prometheus"
    )]
    Init {
        /// The name of the controller, and further names and addresses that callers use for it.
        #[arg(long, value_name = "NAME[,ADDRESS...]")]
        controller: Vec<CertificateNames>,
        /// The name of a host with an agent, and further names and addresses that the controller uses for it.
        #[arg(long, value_name = "NAME[,ADDRESS...]")]
        host: Vec<CertificateNames>,
        /// The name of another program or person that calls agents. It may do there everything that the controller may.
        #[arg(long, value_name = "NAME[,ADDRESS...]")]
        client: Vec<CertificateNames>,
        #[command(flatten)]
        place: AuthorityFolder,
        #[command(flatten)]
        validity: CertificateValidity,
        /// Replace certificates and keys that exist. The authority is never replaced.
        #[arg(long)]
        replace: bool,
    },
    /// Make new certificates and keys with the names of the existing ones. The authority is renewed, too, if it would expire
    /// before them.
    #[command(after_help = "Examples:\n  berth tls renew\n  berth tls renew compute1")]
    Renew {
        /// The hosts or controllers; default: all.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        place: AuthorityFolder,
        #[command(flatten)]
        validity: CertificateValidity,
    },
    /// Revoke certificates: agents that have the new revocation list refuse them.
    #[command(after_help = "Examples:\n  berth tls revoke controller")]
    Revoke {
        /// The hosts or controllers.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        place: AuthorityFolder,
    },
    /// Show certificates: subject, names, purposes, and when they expire.
    #[command(
        after_help = "Examples:\n  berth tls show\n  berth tls show /etc/berth/tls/node.pem -f json"
    )]
    Show {
        /// PEM files; default: those of the folder.
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        place: AuthorityFolder,
        #[command(flatten)]
        format: ListFormat,
    },
}

#[derive(Debug, clap::Args)]
struct AuthorityFolder {
    /// The folder of the authority and of the certificates.
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    directory: PathBuf,
}

#[derive(Debug, clap::Args)]
struct CertificateValidity {
    /// The days for which the certificates are valid.
    #[arg(long, value_name = "NUMBER", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

impl CertificateValidity {
    fn duration(&self) -> Duration {
        DAY * self.days
    }
}

pub fn run(arguments: &TlsArguments, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let now = SystemTime::now();
    match &arguments.command {
        TlsCommand::Init {
            controller,
            host,
            client,
            place,
            validity,
            replace,
        } => {
            let wanted: Vec<CertificateRequest> =
                CertificateRequest::of(controller, CertificateRole::Controller)
                    .chain(CertificateRequest::of(host, CertificateRole::Host))
                    .chain(CertificateRequest::of(client, CertificateRole::Client))
                    .collect();
            init(
                &place.directory,
                &wanted,
                validity.duration(),
                *replace,
                now,
                out,
            )?;
        }
        TlsCommand::Renew {
            names,
            place,
            validity,
        } => renew(&place.directory, names, validity.duration(), now, out)?,
        TlsCommand::Revoke { names, place } => {
            revoke(&place.directory, names, now, out)?;
        }
        TlsCommand::Show {
            files,
            place,
            format,
        } => show(files, &place.directory, now)?.print(format, out)?,
    }
    Ok(ExitCode::Done)
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CertificateRole {
    /// Its listener serves the APIs, and its conductor is a client of the agents.
    Controller,
    /// Its agent serves the conductor. It is no client: a host has no power over another one.
    Host,
    /// It calls agents.
    Client,
}

impl CertificateRole {
    fn of(certificate: &Certificate) -> Self {
        let is_for = |purpose| certificate.purposes.contains(&purpose);
        match (
            is_for(CertificatePurpose::Server),
            is_for(CertificatePurpose::Client),
        ) {
            (true, true) => Self::Controller,
            (false, true) => Self::Client,
            (_, false) => Self::Host,
        }
    }
}

/// A certificate to be made.
struct CertificateRequest {
    names: CertificateNames,
    role: CertificateRole,
}

impl CertificateRequest {
    fn of(names: &[CertificateNames], role: CertificateRole) -> impl Iterator<Item = Self> {
        let names = names.iter().cloned();
        names.map(move |names| Self { names, role })
    }
}

fn init(
    folder: &Path,
    wanted: &[CertificateRequest],
    validity: Duration,
    replace: bool,
    now: SystemTime,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut names: Vec<&str> = wanted.iter().map(|it| it.names.first()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let what = format!("{} is named twice", twice[0]);
        return Err(Failure::new(ErrorCode::Usage, what).hint("give each certificate one name"));
    }
    let first = wanted
        .iter()
        .find(|it| it.role == CertificateRole::Controller);
    let mut authority = match (TlsAuthority::open(folder)?, first) {
        (Some(authority), _) if wanted.is_empty() => {
            let what = format!("{} has an authority already", folder.display());
            return Err(Failure::new(ErrorCode::Usage, what).hint(format!(
                "name what needs a certificate (--host NAME), or see them: berth tls show --directory {}",
                authority.folder().display()
            )));
        }
        (Some(authority), _) => authority,
        (None, Some(controller)) => TlsAuthority::create(folder, controller.names.first(), now)?,
        (None, None) => {
            let what = format!(
                "{} has no authority, and no controller is named",
                folder.display()
            );
            return Err(Failure::new(ErrorCode::Usage, what)
                .hint("give --controller NAME[,ADDRESS], or the --directory of the authority"));
        }
    };
    if !replace {
        for request in wanted {
            authority.check_unused(request.names.first())?;
        }
    }
    authority.outlast(now + validity, now)?;
    for request in wanted {
        authority.issue(&request.names, request.role, now, validity)?;
    }
    let cloud = IssuedCertificates::in_folder(folder)?;
    let made = wanted.iter().map(|it| it.names.first());
    cloud.explain(made, out)?;
    Ok(())
}

fn renew(
    folder: &Path,
    names: &[String],
    validity: Duration,
    now: SystemTime,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut authority = existing(folder)?;
    let all = issued(folder)?;
    let chosen: Vec<&(String, Certificate)> = match names {
        [] => all.iter().collect(),
        names => {
            let known = names.iter().map(|name| find(folder, &all, name));
            known.collect::<Result<_, _>>()?
        }
    };
    let is_new = authority.outlast(now + validity, now)?;
    for (name, certificate) in &chosen {
        let names = CertificateNames::of(name, &certificate.names);
        authority.issue(&names, CertificateRole::of(certificate), now, validity)?;
    }
    for (name, _) in &chosen {
        writeln!(out, "renewed {name}: copy {name}.pem and {name}.key to it")?;
    }
    if is_new {
        writeln!(
            out,
            "renewed the authority: copy {CERTIFICATE} to every host"
        )?;
    }
    writeln!(
        out,
        "next, on each: systemctl reload berth-agent, or systemctl restart berth-controller"
    )?;
    Ok(())
}

fn revoke(
    folder: &Path,
    names: &[String],
    now: SystemTime,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let authority = existing(folder)?;
    let all = issued(folder)?;
    for name in names {
        find(folder, &all, name)?;
    }
    for name in names {
        authority.revoke(name, now)?;
        writeln!(out, "revoked {name}")?;
    }
    writeln!(
        out,
        "next: copy {REVOKED} to every host with an agent, and there: systemctl reload berth-agent"
    )?;
    Ok(())
}

fn existing(folder: &Path) -> Result<TlsAuthority, Failure> {
    TlsAuthority::open(folder)?.ok_or_else(|| {
        let what = format!("{} has no authority ({CERTIFICATE})", folder.display());
        Failure::new(ErrorCode::Missing, what)
            .hint("give its folder (--directory), or make one: berth tls init --controller NAME")
    })
}

fn find<'a>(
    folder: &Path,
    all: &'a [(String, Certificate)],
    name: &str,
) -> Result<&'a (String, Certificate), Failure> {
    all.iter().find(|(known, _)| known == name).ok_or_else(|| {
        let what = format!("{} has no certificate of {name}", folder.display());
        Failure::new(ErrorCode::Refused, what)
            .hint(format!("berth tls show --directory {}", folder.display()))
    })
}

/// The certificates in the folder besides that of the authority, with the names of their files, sorted.
fn issued(folder: &Path) -> Result<Vec<(String, Certificate)>, Failure> {
    let mut found = Vec::new();
    for path in pem_files(folder)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let certificate = read(&path)?.into_iter().next();
        let certificate = certificate.filter(|_| path.file_name() != Some(CERTIFICATE.as_ref()));
        found.extend(certificate.map(|it| (name.into_owned(), it)));
    }
    Ok(found)
}

/// The files `*.pem` of the folder, sorted.
fn pem_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        let what = format!("cannot read {}", folder.display());
        Failure::caused(ErrorCode::File, what, &error)
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|it| it == "pem") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<Vec<Certificate>, Failure> {
    let pem = fs::read(path).map_err(|error| {
        let what = format!("cannot read {}", path.display());
        Failure::caused(ErrorCode::File, what, &error)
    })?;
    Ok(Certificate::read_pem(&pem))
}

/// A row for each certificate. A named file without one is an error.
fn show(files: &[PathBuf], folder: &Path, now: SystemTime) -> Result<Listing, Failure> {
    let mut listing = Listing::new(&[
        "file",
        "subject",
        "names",
        "purposes",
        "not_before",
        "not_after",
        "status",
    ]);
    let named = match files {
        [] => pem_files(folder)?,
        files => files.to_vec(),
    };
    for path in named {
        let certificates = read(&path)?;
        if certificates.is_empty() && !files.is_empty() {
            let what = format!("{} holds no certificate", path.display());
            return Err(Failure::new(ErrorCode::Refused, what)
                .hint("name a PEM file with BEGIN CERTIFICATE in it"));
        }
        for certificate in certificates {
            let texts = |all: Vec<String>| json!(all);
            listing.push([
                json!(path.display().to_string()),
                json!(certificate.holder.subject),
                texts(certificate.names.iter().map(ToString::to_string).collect()),
                texts(
                    certificate
                        .purposes
                        .iter()
                        .map(ToString::to_string)
                        .collect(),
                ),
                json!(certificate.not_before.to_string()),
                json!(certificate.not_after.to_string()),
                json!(expiry::status(&certificate, now).to_string()),
            ]);
        }
    }
    Ok(listing)
}

#[cfg(test)]
mod tests;
