//! Files that options name: who may change them, and secrets in them.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use berth_config::reference::example_line;
use berth_config::table::OPTIONS;
use berth_config::{LoadedConfig, OptionRow, Sources};
use berth_options::{FileRole, Json};
use tempfile::TempDir;

/// A folder with a configuration file. Other users cannot change it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("it is ours");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("it is ours");
        Self(folder)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("it is ours");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
        path
    }

    fn sources(&self, text: &str) -> Sources {
        Sources {
            file: Some(self.write("berth.toml", text, 0o600)),
            ..Sources::default()
        }
    }

    fn load(&self, text: &str) -> Result<LoadedConfig, String> {
        berth_config::load(&self.sources(text)).map_err(|refused| refused.to_string())
    }

    /// The errors, or the warnings if there is no error: other users than root and system accounts get those.
    fn findings(&self, text: &str) -> String {
        match self.load(text) {
            Err(refused) => refused,
            Ok(loaded) => {
                assert!(!berth_files::enforces_trust(), "{:?}", loaded.warnings);
                let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
                warnings.join("\n")
            }
        }
    }
}

/// The other options that a section needs with this secret.
fn options_with(secret: &str) -> &'static str {
    match secret {
        "password" => {
            "auth_type = \"password\"\nauth_url = \"https://keystone:5000/v3\"\nusername = \"u\"\nproject_name = \"p\"\n\
             user_domain_name = \"Default\"\nproject_domain_name = \"Default\"\n"
        }
        "application_credential_secret" => {
            "auth_type = \"v3applicationcredential\"\nauth_url = \"https://keystone:5000/v3\"\n\
             application_credential_id = \"i\"\n"
        }
        "token" => "auth_type = \"admin_token\"\nendpoint = \"http://127.0.0.1:1\"\n",
        _ => "",
    }
}

fn section(row: &OptionRow) -> String {
    row.section
        .replace("TYPE", "nvidia-35")
        .replace("NAME", "rack_power")
}

/// The role of the file that an option names, and the value that names this one.
fn naming(row: &OptionRow, file: &Path) -> Option<(FileRole, Json)> {
    let path = file.display();
    let values = [path.to_string(), format!("exec:{path}")];
    values.into_iter().find_map(|text| {
        let value = row.kind.check(&Json::from(text)).ok()?;
        let (role, _) = *row.kind.files(&value).first()?;
        Some((role, value))
    })
}

#[test]
fn a_file_that_others_can_change_is_refused_for_every_option_that_runs_it_or_takes_rights_from_it()
{
    let home = Home::new();
    let mut named = Vec::new();
    let mut sections: BTreeMap<String, String> = BTreeMap::new();
    for row in OPTIONS.iter() {
        let file = home.0.path().join(row.name());
        if let Some((FileRole::Program | FileRole::Rights, value)) = naming(row, &file) {
            home.write(&row.name(), "", 0o666);
            let lines = sections.entry(section(row)).or_default();
            lines.push_str(&format!("{} = {value}\n", row.key));
            named.push((file, format!("{}.{}", section(row), row.key)));
        }
    }
    let mut text = sections.remove("").unwrap_or_default();
    for (section, lines) in sections {
        text.push_str(&format!("[{section}]\n{lines}"));
    }
    let found = home.findings(&text);
    for (file, name) in &named {
        let name = name.trim_start_matches('.');
        let line = found
            .lines()
            .find(|line| line.contains(&format!("{name}: this file")));
        let line = line.unwrap_or_else(|| panic!("{name}: {found}"));
        let remedy = format!("chmod go-w {}", file.display());
        assert!(
            line.contains("mode 0666") && line.contains(&remedy),
            "{line}"
        );
    }
    let all: Vec<&str> = named.iter().map(|(_, name)| name.as_str()).collect();
    for name in [
        ".compute_driver",
        "accelerators.reset_hook",
        "accelerators.program_hook",
        "accelerators.health_hook",
        "fabric.partition_hook",
        "quota.hook",
        "scheduler_plugin_rack_power.program",
        "libvirt.emulator",
        "placement_service.policy_file",
        "accelerator_service.policy_file",
        "compute_service.policy_file",
        "compute_service.images_file",
        "identity_service.users_file",
        "compute.provider_config_location",
        "agent.client_ca",
        "agent.tls_cert",
        "placement.cafile",
    ] {
        assert!(all.contains(&name), "{name}");
    }
}

#[test]
fn a_folder_above_and_a_file_in_a_named_folder_count_too() {
    let home = Home::new();
    let folder = home.0.path().join("provider_config");
    fs::create_dir(&folder).unwrap();
    let text = format!(
        "[compute]\nprovider_config_location = \"{}\"\n",
        folder.display()
    );
    home.load(&text).unwrap();
    let file = home.write("provider_config/a.yaml", "", 0o666);
    assert!(
        home.findings(&text)
            .contains(&format!("chmod go-w {}", file.display()))
    );
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    home.load(&text).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    assert!(
        home.findings(&text)
            .contains(&format!("chmod go-w {}", folder.display()))
    );
}

#[test]
fn a_configuration_file_and_folder_that_others_can_change_are_refused_together() {
    let home = Home::new();
    let folder = home.0.path().join("berth.d");
    fs::create_dir(&folder).unwrap();
    let more = home.write("berth.d/more.toml", "", 0o606);
    let mut sources = home.sources("");
    sources.directory = Some(folder.clone());
    let file = sources.file.clone().unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o660)).unwrap();
    let texts: Vec<String> = match berth_config::load(&sources) {
        Err(refused) => refused.problems().iter().map(ToString::to_string).collect(),
        Ok(loaded) => loaded.warnings.iter().map(ToString::to_string).collect(),
    };
    for path in [&file, &more] {
        let remedy = format!("chmod go-w {}", path.display());
        assert!(texts.iter().any(|text| text.contains(&remedy)), "{texts:?}");
    }
    assert_eq!(texts.len(), 2, "{texts:?}");
}

#[test]
fn every_secret_option_can_be_set_by_a_file() {
    let home = Home::new();
    let secrets: Vec<&OptionRow> = OPTIONS.iter().filter(|row| row.kind.is_secret()).collect();
    assert!(secrets.len() > 10, "{}", secrets.len());
    for row in secrets {
        let value = match row.kind.check(&Json::from("hunter2")) {
            Ok(_) => "hunter2",
            Err(_) => "postgresql://berth:hunter2@db/berth",
        };
        let file = home.write(&row.name(), &format!("{value}\n"), 0o600);
        let of_file = row.of_file().unwrap();
        let text = format!(
            "[{}]\n{}{} = \"{}\"\n",
            row.section,
            options_with(row.key),
            of_file.key,
            file.display()
        );
        let loaded = home.load(&text).unwrap();
        assert!(loaded.is_set(&row.name()), "{text}");
        assert_eq!(loaded.public()[&row.name()], "***", "{text}");
        assert_eq!(loaded.public()[&of_file.name()], file.display().to_string());
        assert_eq!(loaded.origin(&row.name()), file.display().to_string());
        // The line of the sample file.
        assert!(example_line(&of_file).starts_with(&format!("{}_file = \"/", row.key)));
    }
    let file = home.write("password", "hunter2\n", 0o640);
    let loaded = home
        .load(&format!(
            "[placement]\n{}password_file = \"{}\"\n",
            options_with("password"),
            file.display()
        ))
        .unwrap();
    let password = loaded.config.placement.password.unwrap();
    assert_eq!(password.reveal(), "hunter2");
}

#[test]
fn a_file_with_a_secret_that_cannot_be_used_is_named_and_its_content_is_not_shown() {
    let home = Home::new();
    for (content, mode, more, words) in [
        ("hunter2", 0o644, "", "chmod o= "),
        ("hunter2\nhunter2", 0o600, "", "has more than one line"),
        ("\n", 0o600, "", "is empty"),
        (
            "hunter2",
            0o600,
            "password = \"hunter2\"\n",
            "remove one of password and password_file",
        ),
    ] {
        let file = home.write("secret", content, mode);
        let text = format!(
            "[placement]\npassword_file = \"{}\"\n{more}",
            file.display()
        );
        let refused = home.load(&text).unwrap_err();
        assert!(
            refused.contains("berth.toml:2:17: placement.password_file: ")
                && refused.contains(words),
            "{refused}"
        );
        assert!(!refused.contains("hunter2"), "{refused}");
    }
    let refused = home.load("[placement]\npassword_file = \"/nowhere/secret\"\n");
    assert!(
        refused
            .unwrap_err()
            .contains("/nowhere/secret cannot be read")
    );
}

#[test]
fn a_credential_of_the_service_manager_sets_the_option_of_its_name() {
    let home = Home::new();
    let credentials = home.0.path().join("credentials");
    fs::create_dir(&credentials).unwrap();
    home.write("credentials/placement.password", "hunter2", 0o400);
    home.write("credentials/tls.key", "something else", 0o400);
    let sources = |more: &str| Sources {
        credentials: Some(credentials.clone()),
        ..home.sources(&format!("[placement]\n{}{more}", options_with("password")))
    };
    // It wins over the files.
    let loaded = berth_config::load(&sources("password = \"old\"\n")).unwrap();
    let password = loaded.config.placement.password.as_ref().unwrap();
    assert_eq!(password.reveal(), "hunter2");
    let origin = credentials.join("placement.password");
    assert_eq!(
        loaded.origin("placement.password"),
        origin.display().to_string()
    );
    let environment = vec![(
        "BERTH__PLACEMENT__PASSWORD".into(),
        "of the environment".into(),
    )];
    let sources = Sources {
        environment,
        ..sources("")
    };
    let loaded = berth_config::load(&sources).unwrap();
    let password = loaded.config.placement.password.unwrap();
    assert_eq!(password.reveal(), "of the environment");
}

#[test]
fn a_key_that_every_user_may_read_is_a_warning() {
    let home = Home::new();
    let key = home.write("key", "", 0o644);
    let certificate = home.write("certificate", "", 0o644);
    let text = format!(
        "[agent_client]\ncertfile = \"{}\"\nkeyfile = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    let loaded = home.load(&text).unwrap();
    let remedy = format!("chmod o= {}", key.display());
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings.iter().any(|it| it.contains(&remedy)),
        "{warnings:?}"
    );
}
