//! The first user: `admin`, with a random password, made where no file of users exists.
//!
//! Its password is in `clouds.yaml` and its hash in `identity.toml`, both below `state_path` and readable by their owner only. Each file
//! is replaced as a whole. Each start checks that they belong together, and repairs them after a kill between the two writes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_client::Secret;
use berth_identity::{
    PasswordError, PasswordHash, Users, UsersFile, UsersFileError, fresh_password,
};
use berth_output::{ErrorCode, Failure};

use super::clouds::{self, CloudLogin};
use crate::identity_service::users_failure;
use crate::state_file;
use crate::state_files::USERS;

/// Name of the user and of its project.
const NAME: &str = "admin";

/// The first user: its file, and its login.
#[derive(Debug)]
pub(super) struct FirstUser {
    pub(super) users_file: PathBuf,
    /// The login for `clouds.yaml`.
    pub(super) login: CloudLogin,
}

impl FirstUser {
    /// Loads the user of an earlier start, or creates a new one. `clouds` is the path of `clouds.yaml`, which is not
    /// written here. It hashes a password, so it must not run on a thread that others wait for.
    ///
    /// Errors: A file cannot be read or written, the system gives no random bytes, or the password is lost and the file
    /// has users that Berth did not create.
    pub(super) fn of(state: &Path, clouds: &Path) -> Result<Self, Failure> {
        let users_file = state.join(USERS);
        let known = read(clouds)?.as_deref().and_then(clouds::password);
        let users = existing_users(&users_file)?;
        let password = match (known, &users) {
            (Some(password), Some(users)) if is_of(users, &password) => password,
            (_, Some(users)) if users.users().any(|user| user.name != NAME) => {
                return Err(not_replaced(&users_file));
            }
            (known, _) => {
                let password = match known {
                    Some(password) => password,
                    None => Secret::from(fresh_password().map_err(no_password)?),
                };
                let hash = PasswordHash::of(password.reveal()).map_err(no_password)?;
                state_file::write(&users_file, &text(hash.reveal()))?;
                password
            }
        };
        Ok(Self {
            users_file,
            login: CloudLogin::Made {
                name: NAME.to_owned(),
                password,
            },
        })
    }
}

/// The users in the file; `None` without a file or without users.
fn existing_users(file: &Path) -> Result<Option<Arc<Users>>, Failure> {
    match UsersFile::open(file) {
        Ok(users) => Ok(Some(users.cached())),
        Err(UsersFileError::Unreadable { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        // A file without users can be replaced.
        Err(UsersFileError::Empty { .. }) => Ok(None),
        Err(error) => Err(users_failure(&error)),
    }
}

fn is_of(users: &Users, password: &Secret) -> bool {
    let mut named = users.users().filter(|user| user.name == NAME);
    named.any(|user| user.password_hash.verify(password.reveal()))
}

fn not_replaced(file: &Path) -> Failure {
    let what = format!(
        "the password of {NAME} is lost, and {} has users that berth did not create",
        file.display()
    );
    Failure::new(ErrorCode::BadValue, what).hint(
        "name that file in [identity_service] users_file, with a hash of `berth identity hash-password` for the user",
    )
}

fn read(file: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read(file) {
        // Berth did not write a file that is not UTF-8.
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let what = format!("cannot read {}", file.display());
            Err(Failure::caused(ErrorCode::State, what, &error))
        }
    }
}

fn no_password(error: PasswordError) -> Failure {
    let what = "cannot create a password for the first user";
    Failure::caused(ErrorCode::Unavailable, what, &error)
}

/// The content of the file of users. The separate project `service` is also for the accounts of hosts
/// (`berth identity host-account`).
fn text(hash: &str) -> String {
    format!(
        "# Made by berth, which reads the password of this user in clouds.yaml beside it. For users of your own write\n\
         # /etc/berth/identity.toml (/usr/share/doc/berth/guide/howto/identity.md): this file is not read then.\n\
         [[project]]\nname = \"{NAME}\"\n\n[[project]]\nname = \"service\"\n\n\
         [[user]]\nname = \"{NAME}\"\npassword_hash = \"{hash}\"\ndefault_project = \"{NAME}\"\n\n\
         [[role_assignment]]\nuser = \"{NAME}\"\nproject = \"{NAME}\"\nroles = [\"admin\"]\n\n\
         [[role_assignment]]\nuser = \"{NAME}\"\nproject = \"service\"\nroles = [\"admin\", \"service\"]\n\n\
         [[role_assignment]]\nuser = \"{NAME}\"\nsystem = \"all\"\nroles = [\"admin\"]\n"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    use super::*;

    struct Start {
        users: String,
        clouds: String,
    }

    /// One start: the user, and then `clouds.yaml`.
    fn start(state: &Path) -> Result<Start, Failure> {
        let clouds = state.join("clouds.yaml");
        let first = FirstUser::of(state, &clouds)?;
        let text = clouds::text("http://127.0.0.1:1", "R", None, &first.login);
        state_file::write(&clouds, &text)?;
        let mode = fs::metadata(&first.users_file).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let users = UsersFile::open(&first.users_file).unwrap().cached();
        let password = clouds::password(&text).unwrap();
        assert!(is_of(&users, &password), "they belong together");
        Ok(Start {
            users: fs::read_to_string(first.users_file).unwrap(),
            clouds: text,
        })
    }

    #[test]
    fn a_second_start_finds_the_user_of_the_first() {
        let state = tempfile::tempdir().unwrap();
        let (first, second) = (start(state.path()).unwrap(), start(state.path()).unwrap());
        assert_eq!((first.users, first.clouds), (second.users, second.clouds));
    }

    #[test]
    fn a_users_file_of_another_user_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let file = start(state.path()).map(|_| state.path().join(USERS));
        let file = file.unwrap();
        // Only root can give a file away.
        if fs::metadata(&file).unwrap().uid() == 0 {
            chown(&file, Some(65534), None).unwrap();
            let error = start(state.path()).map(drop).unwrap_err();
            assert_eq!(error.code(), ErrorCode::Untrusted);
            assert!(error.explain().contains("chown -h root "), "{error:?}");
        }
    }

    #[test]
    fn whichever_file_is_lost_both_belong_together_after_the_next_start() {
        for lost in ["identity.toml", "clouds.yaml"] {
            let state = tempfile::tempdir().unwrap();
            let first = start(state.path()).unwrap();
            fs::remove_file(state.path().join(lost)).unwrap();
            let second = start(state.path()).unwrap();
            assert_eq!(first.clouds == second.clouds, lost == "identity.toml");
            assert_ne!(first.users, second.users);
        }
    }

    #[test]
    fn users_that_somebody_added_are_never_written_over() {
        let state = tempfile::tempdir().unwrap();
        let first = start(state.path()).unwrap();
        let file = state.path().join(USERS);
        let more = first.users.clone()
            + &format!(
                "[[user]]\nname = \"alice\"\npassword_hash = \"{}\"\n",
                PasswordHash::cheap("x").unwrap().reveal()
            );
        state_file::write(&file, &more).unwrap();
        assert_eq!(start(state.path()).unwrap().users, more);
        fs::remove_file(state.path().join("clouds.yaml")).unwrap();
        let error = start(state.path()).map(drop).unwrap_err().explain();
        assert!(error.contains("users_file"), "{error}");
        assert_eq!(fs::read_to_string(file).unwrap(), more);
    }
}
