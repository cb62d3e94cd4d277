//! `clouds.yaml`: where OpenStack's clients find the one listener, and how they log in.

use std::fmt::Write as _;

use berth_client::Secret;

/// The line with the password; nothing else in the file begins so.
const PASSWORD: &str = "      password: \"";

/// Who logs in, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CloudLogin {
    /// The user that was made here.
    Made {
        /// Its name, and that of its project.
        name: String,
        /// Its password: letters, digits, `-` and `_`.
        password: Secret,
    },
    /// One of the users of an operator's file.
    OfFile(String),
}

pub(super) fn text(base: &str, region: &str, login: &CloudLogin) -> String {
    let mut text = String::from(
        "# Written by berth at each start: openstack --os-cloud berth, with OS_CLIENT_CONFIG_FILE naming this file.\n",
    );
    if let CloudLogin::OfFile(file) = login {
        // Writing to a text does not fail.
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
    text
}

/// The password that an earlier start wrote; none where the file is not one of this kind.
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
        let written = text("http://127.0.0.1:8770", "RegionOne", &login);
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
        let written = text("http://h", "R", &login);
        assert!(
            written.contains("/etc/berth/identity.toml") && written.contains("OS_PASSWORD"),
            "{written}"
        );
        assert!(password(&written).is_none() && !written.contains("username"));
    }
}
