//! Checks of files that services use: the users file, the quota hook and the audit file.

use std::path::Path;

use berth_compose::state_files::USERS;
use berth_config::{ConfigProblem, LoadedConfig};
use berth_identity::{UsersError, UsersFile, UsersFileError};
use berth_output::ErrorCode;
use berth_quota::QuotaHook;

use super::named_files::{at_option, unreadable};

/// All problems in these files. Blocks.
pub(super) fn problems(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let mut problems = users(loaded);
    problems.extend(quota_hook(loaded));
    problems.extend(audit_file(loaded));
    problems
}

/// The folder of the audit file: the file itself is created by the start.
fn audit_file(loaded: &LoadedConfig) -> Option<ConfigProblem> {
    let folder = loaded.config.audit.file.as_deref()?.parent()?;
    if folder.is_dir() {
        return None;
    }
    let wrong = format!("there is no folder {}", folder.display());
    Some(ConfigProblem {
        right: "make the folder: nothing that writes audit records starts without it".to_owned(),
        ..at_option(loaded, "audit.file", wrong, ErrorCode::Missing)
    })
}

/// The operator's users file. Without this option and this file, `berth up` makes one of its own.
fn users(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    const KEY: &str = "identity_service.users_file";
    let path = &loaded.config.identity_service.users_file;
    if loaded.is_set(KEY) || !matches!(path.try_exists(), Ok(false)) {
        return users_in(loaded, KEY, path);
    }
    own_users(loaded)
}

/// The users file that an earlier start made. A check of the files of state reports who owns and can change it.
fn own_users(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let path = loaded.config.state_path.join(USERS);
    match UsersFile::check(&path) {
        Err(UsersFileError::Wrong(_) | UsersFileError::NoText { .. }) => {
            users_in(loaded, "state_path", &path)
        }
        // A file that is missing or empty is written; the start may run as a user that can read it.
        Ok(()) | Err(_) => Vec::new(),
    }
}

fn users_in(loaded: &LoadedConfig, key: &str, path: &Path) -> Vec<ConfigProblem> {
    const RIGHT: &str = "the identity service does not start with it";
    let at_key = |wrong, code| {
        vec![ConfigProblem {
            right: RIGHT.to_owned(),
            ..at_option(loaded, key, wrong, code)
        }]
    };
    match UsersFile::check(path) {
        Ok(()) => Vec::new(),
        Err(UsersFileError::Unreadable { source, .. }) => {
            at_key(unreadable(path, &source), ErrorCode::Missing)
        }
        Err(UsersFileError::Wrong(UsersError { file, problems })) => {
            let problems = problems.into_iter().map(|problem| ConfigProblem {
                at: format!("{file}:{}:{}", problem.line, problem.column),
                key: problem.key,
                wrong: problem.text,
                right: RIGHT.to_owned(),
                code: ErrorCode::BadValue,
            });
            problems.collect()
        }
        // The check of all files that decide rights reports it.
        Err(UsersFileError::Untrusted { .. }) => Vec::new(),
        Err(
            error @ (UsersFileError::Writable { .. }
            | UsersFileError::NoText { .. }
            | UsersFileError::Empty { .. }),
        ) => at_key(error.to_string(), ErrorCode::BadValue),
    }
}

fn quota_hook(loaded: &LoadedConfig) -> Option<ConfigProblem> {
    let missing = QuotaHook::open(loaded.config.quota_hook()?).err()?;
    let problem = at_option(
        loaded,
        "quota.hook",
        missing.to_string(),
        ErrorCode::Missing,
    );
    Some(ConfigProblem {
        right: "the compute API does not start with it; name a program that exists".to_owned(),
        ..problem
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use berth_config::{ConfigDocument, resolve};

    /// The problems of a configuration with this text.
    fn problems_of(text: &str) -> Vec<String> {
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text: text.to_owned(),
        };
        let loaded = resolve(&[document], &[]).unwrap();
        let problems = problems(&loaded);
        problems.iter().map(ToString::to_string).collect()
    }

    fn with_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn an_audit_file_in_a_folder_that_is_missing_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let text = |path: &Path| format!("[audit]\nfile = \"{}\"\n", path.display());
        let good = text(&folder.path().join("audit.log"));
        assert_eq!(problems_of(&good), [""; 0]);
        let found = problems_of(&text(&folder.path().join("log/audit.log")));
        assert_eq!(found.len(), 1, "{found:?}");
        let begin = "berth.toml:2:8: audit.file: there is no folder ";
        assert!(found[0].starts_with(begin), "{found:?}");
    }

    #[test]
    fn a_users_file_that_the_start_refuses_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.toml");
        let named = format!("[identity_service]\nusers_file = \"{}\"\n", path.display());
        let hash = berth_identity::PasswordHash::cheap("x").unwrap();
        let user = format!(
            "[[user]]\nname = \"a\"\npassword_hash = \"{}\"\n",
            hash.reveal()
        );
        let unknown = format!(
            "{user}[[role_assignment]]\nuser = \"a\"\nproject = \"p\"\nroles = [\"admin\"]\n"
        );
        let at_option = "berth.toml:2:14: identity_service.users_file: ".to_owned();
        let in_file = |place: &str| format!("{}:{place}: ", path.display());
        assert!(problems_of(&named)[0].starts_with(&at_option), "missing");
        for (text, mode, place, words) in [
            (user.as_str(), 0o600, None, ""),
            (&user, 0o666, Some(at_option.clone()), "chmod 0600"),
            ("", 0o600, Some(at_option), "has no user"),
            (
                "[[user",
                0o600,
                Some(in_file("1:7")),
                "this is not valid TOML",
            ),
            (
                "[[user]]\nname = \"a\"\npassword_hash = \"hunter2\"\n",
                0o600,
                Some(in_file("3:17")),
                "not an Argon2id hash",
            ),
            (&unknown, 0o600, Some(in_file("6:11")), "no such project"),
        ] {
            fs::write(&path, text).unwrap();
            with_mode(&path, mode);
            let found = problems_of(&named);
            assert_eq!(found.len(), usize::from(place.is_some()), "{found:?}");
            for problem in found {
                assert!(
                    problem.starts_with(place.as_deref().unwrap_or_default())
                        && problem.contains(words)
                        && problem.contains("does not start with it")
                        && !problem.contains("hunter2"),
                    "{problem}"
                );
            }
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(problems_of(&named)[0].contains("not a regular file"));
        assert_eq!(problems_of(""), [""; 0], "none is named, and none is there");
    }

    #[test]
    fn a_users_file_that_an_earlier_start_made_is_checked_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(USERS);
        let users = folder.path().join("none.toml");
        let text = format!("state_path = \"{}\"\n", folder.path().display());
        let found = |content: &str| {
            fs::write(&path, content).unwrap();
            with_mode(&path, 0o600);
            let document = ConfigDocument {
                name: "berth.toml".to_owned(),
                text: text.clone(),
            };
            let mut loaded = resolve(&[document], &[]).unwrap();
            // This machine may have users of its own in /etc.
            loaded.config.identity_service.users_file = users.clone();
            let problems = problems(&loaded);
            let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
            texts
        };
        assert_eq!(found(""), [""; 0], "it is written");
        let problems = found("[[user");
        assert_eq!(problems.len(), 1, "{problems:?}");
        let begin = format!("{}:1:7: ", path.display());
        assert!(problems[0].starts_with(&begin), "{problems:?}");
    }

    #[test]
    fn a_quota_hook_that_does_not_exist_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let hook = folder.path().join("hook");
        let named = format!("[quota]\nhook = \"{}\"\n", hook.display());
        let found = problems_of(&named);
        assert!(
            found[0].starts_with("berth.toml:2:8: quota.hook: ")
                && found[0].contains("name a program that exists"),
            "{found:?}"
        );
        fs::write(&hook, "#!/bin/sh\n").unwrap();
        with_mode(&hook, 0o755);
        assert_eq!(problems_of(&named), [""; 0]);
    }
}
