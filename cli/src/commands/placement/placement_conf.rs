//! Reads the database URL from the configuration file of OpenStack's Placement (oslo.config): `[placement_database]
//! connection`.

use std::fs;
use std::path::Path;

use berth_config::Secret;
use berth_output::{ErrorCode, Failure};

/// The connection that a file names, as a URL in Berth's form.
///
/// Errors: the file cannot be read, has no connection, or the connection refers to another option.
pub(super) fn connection(file: &Path) -> Result<Secret, Failure> {
    let named = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        let what = format!("{named} cannot be read");
        Failure::caused(ErrorCode::Unreadable, what, &error)
    })?;
    let wrong = |what: &str| {
        let what = format!("{named}: [placement_database] connection {what}");
        Failure::new(ErrorCode::BadValue, what).hint("name the database with --database URL")
    };
    let url = last_connection(&text).ok_or_else(|| wrong("is not set"))?;
    if url.contains('$') {
        return Err(wrong("has a $, which refers to another option"));
    }
    let Some(path) = url.strip_prefix("sqlite:") else {
        return Ok(Secret::from(url.to_owned()));
    };
    // SQLAlchemy uses three slashes before a relative path, four before an absolute one.
    match path.strip_prefix("///") {
        Some(path) if path.starts_with('/') => Ok(Secret::from(format!("sqlite:{path}"))),
        _ => Err(wrong(
            "names no file by its absolute path (sqlite:////PATH)",
        )),
    }
}

/// The last value set, as oslo.config does.
fn last_connection(text: &str) -> Option<&str> {
    let mut section = "";
    let mut found = None;
    for line in text.lines() {
        // A line that begins with a blank continues the one before; a URL never does.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            section = name;
        } else if section == "placement_database"
            && let Some((name, value)) = line.split_once(['=', ':'])
            && name.trim() == "connection"
        {
            let value = value.trim();
            let bare = value
                .strip_prefix(['"', '\''])
                .and_then(|it| it.strip_suffix(['"', '\'']));
            found = Some(bare.unwrap_or(value)).filter(|url| !url.is_empty());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("placement.conf");
        fs::write(&file, text).unwrap();
        let url = connection(&file).map_err(|failure| failure.explain())?;
        Ok(url.reveal().to_owned())
    }

    #[test]
    fn the_database_of_a_placement_conf_is_read_as_oslo_reads_it() {
        for (text, expected) in [
            (
                "[placement_database]\nconnection = sqlite:////var/lib/placement.db\n",
                "sqlite:/var/lib/placement.db",
            ),
            (
                "[DEFAULT]\nconnection = no\n[placement_database]\n#connection = no\nconnection=mysql+pymysql://p:s@db/placement\n[api]\nconnection = no\n",
                "mysql+pymysql://p:s@db/placement",
            ),
            (
                "[placement_database]\nconnection = a://1\nconnection : \"a://2\"\n",
                "a://2",
            ),
        ] {
            assert_eq!(of(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_connection_without_a_database_is_reported_without_its_password() {
        for (text, words) in [
            ("", "is not set"),
            ("[placement_database]\n", "is not set"),
            (
                "[placement_database]\nconnection = mysql://p:secret@$host/p\n",
                "has a $",
            ),
            (
                "[placement_database]\nconnection = sqlite:///placement.db\n",
                "absolute path",
            ),
            (
                "[placement_database]\nconnection = sqlite://\n",
                "absolute path",
            ),
        ] {
            let error = of(text).unwrap_err();
            assert!(
                error.contains(words) && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
