//! `clouds.yaml`: the address of the front listener and the login for OpenStack's clients.

use std::fmt::Write as _;
use std::path::Path;

use berth_client::Secret;

/// The start of the line with the password; no other line starts with it.
const PASSWORD: &str = "      password: \"";

/// The login in `clouds.yaml`, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CloudLogin {
    Made {
        /// Name of the user and of its project.
        name: String,
        /// The password: letters, digits, `-` and `_`.
        password: Secret,
    },
    /// A user of the operator's file.
    OfFile(String),
}

/// `cafile`: the authority that signed the listener's certificate, unless the system knows it.
pub(super) fn text(base: &str, region: &str, cafile: Option<&Path>, login: &CloudLogin) -> String {
    let mut text = String::from(
        "# Written by berth at each start: openstack --os-cloud berth, with OS_CLIENT_CONFIG_FILE naming this file.\n",
    );
    if let CloudLogin::OfFile(file) = login {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# There is no password in it: the users are those of {file}.\n\
             # Say who you are by OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME."
        );
    }
    let _ = write!(
        text,
        "clouds:\n  berth:\n    auth_type: password\n    auth:\n      auth_url: {base}/identity/v3\n"
    );
    if let CloudLogin::Made { name, password } = login {
        let _ = write!(
            text,
            "      username: {name}\n{PASSWORD}{}\"\n      project_name: {name}\n",
            password.reveal()
        );
    }
    let _ = write!(
        text,
        "      user_domain_name: Default\n      project_domain_name: Default\n    region_name: \"{region}\"\n    \
         identity_api_version: \"3\"\n"
    );
    if let Some(cafile) = cafile {
        let _ = writeln!(text, "    cacert: {:?}", cafile.display().to_string());
    }
    text
}

/// The password that an earlier start wrote; `None` if the file was not written by Berth.
pub(super) fn password(text: &str) -> Option<Secret> {
    let line = text.lines().find_map(|line| line.strip_prefix(PASSWORD))?;
    let password = line.strip_suffix('"')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_ours = !password.is_empty() && password.chars().all(plain);
    is_ours.then(|| Secret::from(password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_an_earlier_start_is_found_in_what_it_wrote() {
        let login = CloudLogin::Made {
            name: "admin".to_owned(),
            password: Secret::from("s3cret-_"),
        };
        let written = text("http://127.0.0.1:8770", "RegionOne", None, &login);
        assert!(!written.contains("cacert"));
        let found = password(&written).map(|it| it.reveal().to_owned());
        assert_eq!(found.as_deref(), Some("s3cret-_"));
        for other in [
            "",
            "clouds:\n",
            "      password: hunter2\n",
            "      password: \"hun\\\"ter\"\n",
            "      password: \"\"\n",
        ] {
            assert!(password(other).is_none(), "{other}");
        }
    }

    #[test]
    fn with_an_operator_s_users_it_says_that_it_has_no_password() {
        let login = CloudLogin::OfFile("/etc/berth/identity.toml".to_owned());
        let cafile = Path::new("/etc/berth/tls/ca.pem");
        let written = text("https://h", "R", Some(cafile), &login);
        assert!(
            written.ends_with("    cacert: \"/etc/berth/tls/ca.pem\"\n"),
            "{written}"
        );
        assert!(
            written.contains("/etc/berth/identity.toml") && written.contains("OS_PASSWORD"),
            "{written}"
        );
        assert!(password(&written).is_none() && !written.contains("username"));
    }
}
