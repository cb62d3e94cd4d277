//! The file of users: what is wrong in it is named, what it says is what there is, and it is read again when it has changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use berth_identity::{AssignmentTarget, ReloadOutcome, Users, UsersFile, UsersFileError};
use proptest::prelude::*;

use super::service::{cloud, hash, user, write};

fn refused(text: &str) -> String {
    Users::from_text("identity.toml", text)
        .unwrap_err()
        .to_string()
}

#[test]
fn everything_that_is_wrong_is_named_with_its_line_its_key_and_what_would_be_right() {
    let alice = user("alice", "");
    let with_user = |text: &str| format!("{alice}{text}");
    let grant = |rest: &str| {
        with_user(&format!(
            "[[project]]\nname = \"p\"\n[[role_assignment]]\nuser = \"alice\"\n{rest}\n"
        ))
    };
    let cases: [(String, &str, &str); 27] = [
        (
            "[[user".to_owned(),
            "identity.toml:1:",
            "this is not valid TOML",
        ),
        ("usr = []".to_owned(), "1:1: usr", "did you mean \"user\"?"),
        (
            "user = 7".to_owned(),
            "1:8: user",
            "found a whole number; expected a list",
        ),
        (
            "[[user]]\npassword_hash = \"x\"".to_owned(),
            "user[0]",
            "\"name\" is missing",
        ),
        (
            "[[user]]\nname = \"a\"".to_owned(),
            "user[0]",
            "berth identity hash-password",
        ),
        (
            "[[user]]\nname = \"a\"\npassword_hash = \"hunter2\"".to_owned(),
            "3:17: user[0].password_hash",
            "not an Argon2id hash",
        ),
        (
            "[[user]]\nname = \"a\"\npassword = \"hunter2\"".to_owned(),
            "3:1: user[0].password",
            "unknown key",
        ),
        (
            "[[user]]\nname = \"\"".to_owned(),
            "2:8: user[0].name",
            "1 to 255 characters",
        ),
        (
            "[[user]]\nname = \"a\\u0007\"".to_owned(),
            "user[0].name",
            "no control character",
        ),
        (
            user("a", "enabled = \"no\""),
            "user[0].enabled",
            "expected true or false",
        ),
        (
            user("a", "domain = \"Defautl\""),
            "user[0].domain",
            "did you mean \"Default\"?",
        ),
        (
            user("a", "default_project = \"p\""),
            "user[0].default_project",
            "no such project; there are no alternatives",
        ),
        (user("a", "id = \"a/b\""), "user[0].id", "1 to 64 letters"),
        (user("a", "id = \"\""), "user[0].id", "1 to 64 letters"),
        (
            format!("{alice}{alice}"),
            "user[1]",
            "one of this user name already at user[0]",
        ),
        (
            format!("{}{}", user("a", "id = \"x\""), user("b", "id = \"x\"")),
            "user[1]",
            "user id already at user[0]",
        ),
        (
            "[[project]]\nname = \"p\"\n[[project]]\nname = \"p\"".to_owned(),
            "project[1]",
            "project name already at project[0]",
        ),
        (
            "[[domain]]\nname = \"d\"\n[[domain]]\nname = \"d\"".to_owned(),
            "domain[1]",
            "domain name already",
        ),
        (
            "[[role]]\nname = \"r\"\nimplies = [\"redaer\"]".to_owned(),
            "role[0].implies[0]",
            "did you mean \"reader\"?",
        ),
        (
            grant("project = \"p\""),
            "role_assignment[0]",
            "\"roles\" is missing",
        ),
        (
            grant("project = \"p\"\nroles = []"),
            "role_assignment[0].roles",
            "one role at least",
        ),
        (
            grant("project = \"p\"\nroles = [\"amdin\"]"),
            "role_assignment[0].roles[0]",
            "did you mean \"admin\"?",
        ),
        (
            grant("project = \"q\"\nroles = [\"admin\"]"),
            "role_assignment[0].project",
            "did you mean \"p\"?",
        ),
        (
            grant("roles = [\"admin\"]"),
            "role_assignment[0]",
            "one of project, domain and system",
        ),
        (
            grant("project = \"p\"\nsystem = \"all\"\nroles = [\"admin\"]"),
            "role_assignment[0]",
            "one of project, domain and system",
        ),
        (
            grant("system = \"some\"\nroles = [\"admin\"]"),
            "role_assignment[0].system",
            "\"all\"",
        ),
        (
            "[[role_assignment]]\nuser = \"eve\"\nsystem = \"all\"\nroles = [\"admin\"]".to_owned(),
            "role_assignment[0].user",
            "has no user",
        ),
    ];
    for (text, place, words) in cases {
        let message = refused(&text);
        assert!(
            message.contains(place) && message.contains(words),
            "{text}\n{message}"
        );
        assert!(
            !message.contains("hunter2") && !message.contains(hash()),
            "{message}"
        );
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let message = refused("[[user]]\nname = \"\"\n[[project]]\nname = 7\n[[domain]]\n");
    for place in [
        "user[0].name",
        "user[0]: \"password_hash\"",
        "project[0].name",
        "domain[0]: \"name\"",
    ] {
        assert!(message.contains(place), "{place}: {message}");
    }
    assert_eq!(message.lines().count(), 4, "{message}");
}

#[test]
fn roles_imply_others_in_any_order_and_round() {
    let text = format!(
        "{}[[role]]\nname = \"a\"\nimplies = [\"b\"]\n[[role]]\nname = \"b\"\nimplies = [\"a\", \"service\"]\n\
         [[role_assignment]]\nuser = \"u\"\nsystem = \"all\"\nroles = [\"a\"]\n[[role_assignment]]\nuser = \"u\"\ndomain = \"Default\"\nroles = [\"admin\"]\n",
        user("u", "")
    );
    let users = Users::from_text("f", &text).unwrap();
    let id = &users.user_named("default", "u").unwrap().id;
    let names = |target| -> Vec<String> {
        users
            .roles_of(id, &target)
            .iter()
            .map(|role| role.name.clone())
            .collect()
    };
    assert_eq!(names(AssignmentTarget::System), ["a", "b", "service"]);
    assert_eq!(
        names(AssignmentTarget::Domain("default".to_owned())),
        ["admin", "manager", "member", "reader"]
    );
    assert_eq!(names(AssignmentTarget::Project("p".to_owned())), [""; 0]);
}

#[test]
fn a_file_that_others_can_write_to_is_refused_and_so_is_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.toml");
    write(&path, &cloud());
    UsersFile::open(&path).unwrap();
    for mode in [0o660, 0o602, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = UsersFile::open(&path).unwrap_err();
        assert!(
            matches!(error, UsersFileError::Writable { .. }),
            "{mode:o}: {error}"
        );
        assert!(error.to_string().contains("chmod 0600"), "{error}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    UsersFile::open(&path).unwrap();
    for other in [
        folder.path(),
        Path::new("/dev/zero"),
        Path::new("/no/such/file"),
    ] {
        let error = UsersFile::open(other).unwrap_err();
        assert!(
            matches!(error, UsersFileError::Unreadable { .. }),
            "{error}"
        );
    }
    fs::write(&path, b"\xff").unwrap();
    assert!(matches!(
        UsersFile::open(&path),
        Err(UsersFileError::NoText { .. })
    ));
}

#[test]
fn a_new_file_is_read_and_an_invalid_one_keeps_the_users_and_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("identity.toml");
    write(&path, &user("alice", ""));
    let file = UsersFile::open(&path).unwrap();
    let names = || -> Vec<String> {
        file.cached()
            .users()
            .map(|user| user.name.clone())
            .collect()
    };
    assert!(matches!(
        file.reload_if_changed(),
        Ok(ReloadOutcome::Unchanged)
    ));
    write(&path, &user("robert", ""));
    assert!(matches!(
        file.reload_if_changed(),
        Ok(ReloadOutcome::Reloaded)
    ));
    assert_eq!(names(), ["robert"]);
    write(&path, "[[user]]\nname = 7\n");
    let message = file.reload_if_changed().unwrap_err().to_string();
    assert!(message.contains("user[0].name"), "{message}");
    assert!(
        matches!(file.reload_if_changed(), Ok(ReloadOutcome::Unchanged)),
        "reported once"
    );
    assert_eq!(names(), ["robert"]);
    for without_users in ["", "[[project]]\nname = \"p\"\n"] {
        write(&path, without_users);
        let message = file.reload_if_changed().unwrap_err().to_string();
        assert!(message.contains("has no user"), "{message}");
        assert!(matches!(
            UsersFile::open(&path),
            Err(UsersFileError::Empty { .. })
        ));
        assert_eq!(names(), ["robert"]);
    }
    fs::remove_file(&path).unwrap();
    assert!(file.reload_if_changed().is_err());
    assert!(matches!(
        file.reload_if_changed(),
        Ok(ReloadOutcome::Unchanged)
    ));
    assert_eq!(names(), ["robert"]);
    write(&path, &user("alice", ""));
    assert!(matches!(
        file.reload_if_changed(),
        Ok(ReloadOutcome::Reloaded)
    ));
    assert_eq!(names(), ["alice"]);
}

/// Names as files may have them.
fn name() -> impl Strategy<Value = String> {
    "[a-zA-Zäß0-9]([a-zA-Zäß0-9 ._@-]{0,20}[a-zA-Zäß0-9])?"
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        let _ = Users::from_text("f", &text);
    }

    #[test]
    fn no_toml_makes_the_reader_panic(
        section in prop::sample::select(vec!["user", "project", "domain", "role", "role_assignment", "other"]),
        key in prop::sample::select(vec!["name", "domain", "id", "password_hash", "roles", "system", "implies", "enabled", "user"]),
        value in prop::sample::select(vec!["7", "\"x\"", "[]", "[[]]", "{}", "true", "1979-05-27", "\"$argon2id$v=19$\"", "[\"admin\", 7]"]),
    ) {
        let _ = Users::from_text("f", &format!("[[{section}]]\n{key} = {value}\n"));
    }

    #[test]
    fn what_is_written_is_read_and_has_the_same_ids_in_any_order(names in prop::collection::btree_set(name(), 1..8)) {
        let write = |name: &String| format!("{}[[project]]\nname = \"{name}\"\n", user(name, ""));
        let forwards: String = names.iter().map(write).collect();
        let backwards: String = names.iter().rev().map(write).collect();
        let users = Users::from_text("f", &forwards).unwrap();
        prop_assert_eq!(users.users().count(), names.len());
        for name in &names {
            let user = users.user_named("default", name).unwrap();
            prop_assert_ne!(&user.id, &users.project_named("default", name).unwrap().id);
        }
        let again = Users::from_text("f", &backwards).unwrap();
        prop_assert_eq!(users, again);
    }
}
