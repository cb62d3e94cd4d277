//! `berth identity host-account`: adds the account of a host to the users file.
//!
//! The tables are appended to the file, so that the operator's comments, its owner and its mode stay. The new text is
//! checked before that.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use berth_compose::identity_service::users_failure;
use berth_compose::state_file;
use berth_config::Config;
use berth_http::auth::{HOST_ACCOUNT_PREFIX, SERVICE_DOMAIN};
use berth_identity::{PasswordHash, Users, UsersFileError, fresh_password};
use berth_options::text::is_host_name;
use berth_output::{ErrorCode, Failure};

/// The project in which a host has the role `service`.
const PROJECT: &str = "service";

/// Where the agent of a host logs in.
pub(super) struct HostLogin<'a> {
    pub(super) auth_url: String,
    /// The authority of that URL's certificate.
    pub(super) cafile: Option<&'a Path>,
}

/// The URL at which agents find the front listener of this configuration.
pub(super) fn auth_url(config: &Config) -> String {
    let listener = config.api_listener();
    let public = config.api.public_endpoint.clone();
    let internal = config
        .api
        .internal_listen
        .address()
        .map(|it| listener.url(it));
    let own = listener.address.filter(|it| !it.ip().is_unspecified());
    let base = internal.or(public).or(own.map(|it| listener.url(it)));
    let base = base.unwrap_or_else(|| "http://CONTROLLER:8770".to_owned());
    format!("{}/identity/v3", base.trim_end_matches('/'))
}

pub(super) fn add(
    host: &str,
    path: &Path,
    login: &HostLogin<'_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if host.is_empty() || !is_host_name(host) {
        let what = format!("{host:?} is not a host name");
        return Err(Failure::new(ErrorCode::Usage, what)
            .hint("give the host's name, as `berth agent status` on it shows it"));
    }
    let before = read(path)?;
    let file = path.display().to_string();
    let users = Users::from_text(&file, before.as_deref().unwrap_or_default())
        .map_err(|error| users_failure(&error.into()))?;
    let name = format!("{HOST_ACCOUNT_PREFIX}{host}");
    if users.user_named(SERVICE_DOMAIN, &name).is_some() {
        let what = format!("{file} has the user {name} already");
        return Err(Failure::new(ErrorCode::Refused, what).hint(
            "for a new password, remove its [[user]] and [[role_assignment]], and run the command again",
        ));
    }
    let has_project = users.project_named(SERVICE_DOMAIN, PROJECT).is_some();
    let password = fresh_password().map_err(no_password)?;
    let hash = PasswordHash::of(&password).map_err(no_password)?;
    let tables = tables(&name, hash.reveal(), has_project);
    let after = before.clone().unwrap_or_default() + &tables;
    Users::from_text(&file, &after).map_err(|error| users_failure(&error.into()))?;
    match before {
        None => state_file::write(path, &tables)?,
        Some(_) => append(path, &tables)?,
    }
    out.write_all(agent_options(&name, &password, login).as_bytes())?;
    Ok(())
}

/// Appends to the file, which keeps its owner and mode.
fn append(path: &Path, text: &str) -> Result<(), Failure> {
    let appended = berth_files::open_options()
        .append(true)
        .open(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    appended.map_err(|error| {
        let what = format!("cannot write {}", path.display());
        Failure::caused(ErrorCode::File, what, &error)
    })
}

/// The text of the file; `None` without a file.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    let unreadable = |source| UsersFileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(users_failure(&unreadable(error))),
    }
}

fn no_password(error: berth_identity::PasswordError) -> Failure {
    let what = "cannot create a password for the account";
    Failure::caused(ErrorCode::Unavailable, what, &error)
}

/// What is appended to the users file. A host name needs no escapes in TOML.
fn tables(name: &str, hash: &str, has_project: bool) -> String {
    let project = match has_project {
        true => String::new(),
        false => format!("\n[[project]]\nname = \"{PROJECT}\"\n"),
    };
    format!(
        "{project}\n[[user]]\nname = \"{name}\"\npassword_hash = \"{hash}\"\ndefault_project = \"{PROJECT}\"\n\n\
         [[role_assignment]]\nuser = \"{name}\"\nproject = \"{PROJECT}\"\nroles = [\"service\"]\n"
    )
}

/// The sections with which the agent logs in to the services that it reports to.
fn agent_options(name: &str, password: &str, login: &HostLogin<'_>) -> String {
    let HostLogin { auth_url, cafile } = login;
    let cafile = cafile.map(|path| format!("cafile = \"{}\"\n", path.display()));
    let cafile = cafile.unwrap_or_default();
    let mut text = format!(
        "# /etc/berth/berth.d/controller.toml on the host, mode 0600. It contains the password of {name}.\n"
    );
    for section in ["placement", "cyborg", "conductor", "glance"] {
        text.push_str(&format!(
            "[{section}]\nauth_type = \"password\"\nauth_url = \"{auth_url}\"\nusername = \"{name}\"\npassword = \"{password}\"\n\
             project_name = \"{PROJECT}\"\nuser_domain_name = \"Default\"\nproject_domain_name = \"Default\"\n{cafile}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use berth_identity::{AssignmentTarget, UsersFile};

    use super::*;

    fn added(host: &str, path: &Path) -> Result<String, Failure> {
        let mut out = Vec::new();
        let login = HostLogin {
            auth_url: "https://cloud.example.org/identity/v3".to_owned(),
            cafile: Some(Path::new("/etc/berth/tls/ca.pem")),
        };
        add(host, path, &login, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn an_account_of_a_host_has_the_role_service_alone_and_comments_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.toml");
        fs::write(&path, "# ours\n[[project]]\nname = \"admin\"\n").unwrap();
        let shown = added("compute1", &path).unwrap();
        added("compute2", &path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# ours\n"), "{text}");
        let users = UsersFile::open(&path).unwrap().cached();
        let user = users.user_named("default", "host/compute1").unwrap();
        let project = users.project_named("default", "service").unwrap();
        let target = AssignmentTarget::Project(project.id.clone());
        let roles = users.roles_of(&user.id, &target);
        let roles: Vec<&str> = roles.iter().map(|role| role.name.as_str()).collect();
        assert_eq!(roles, ["service"]);
        let password = shown
            .lines()
            .find_map(|line| line.strip_prefix("password = "));
        assert!(
            user.password_hash
                .verify(password.unwrap().trim_matches('"'))
        );
        let options: toml::Table = shown.parse().unwrap();
        for section in ["placement", "cyborg", "conductor", "glance"] {
            assert_eq!(options[section]["username"].as_str(), Some("host/compute1"));
            assert_eq!(
                options[section]["cafile"].as_str(),
                Some("/etc/berth/tls/ca.pem")
            );
        }
    }

    #[test]
    fn an_account_that_exists_and_a_name_that_is_none_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.toml");
        added("compute1", &path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "a new file is its owner's alone");
        let before = fs::read_to_string(&path).unwrap();
        let error = added("compute1", &path).map(drop).unwrap_err().explain();
        assert!(error.contains("host/compute1 already"), "{error}");
        assert!(added("a b", &path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
    }
}
