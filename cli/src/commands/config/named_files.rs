//! Checks of files that options name and that a start reads: the fake driver's machine and the list of images. An error
//! is reported at its position in that file.

use std::path::Path;

use berth_config::{ComputeDriver, ConfigProblem, LoadedConfig};
use berth_fake::{FakeDriver, MachineError};
use berth_image::{ImageList, ImageListError};
use berth_output::ErrorCode;

use super::image_properties;

/// Mistakes in a file, and what is suspected to be one.
#[derive(Debug, Default)]
pub(super) struct FileFindings {
    pub(super) errors: Vec<ConfigProblem>,
    pub(super) warnings: Vec<ConfigProblem>,
}

/// Errors in the fake driver's machine. Blocks.
pub(super) fn machine(loaded: &LoadedConfig) -> Vec<ConfigProblem> {
    let config = &loaded.config;
    let (ComputeDriver::Fake, Some(path)) = (&config.compute_driver, &config.fake.machine) else {
        return Vec::new();
    };
    let at_option = |wrong, code| vec![at_option(loaded, "fake.machine", wrong, code)];
    match FakeDriver::from_file(path) {
        Ok(_) => Vec::new(),
        Err(MachineError::Unreadable { source, .. }) => {
            at_option(unreadable(path, &source), ErrorCode::Missing)
        }
        Err(error @ MachineError::TooLarge { .. }) => {
            at_option(error.to_string(), ErrorCode::Driver)
        }
        Err(MachineError::Refused { file, problems }) => {
            let problems = problems.into_iter().map(|problem| ConfigProblem {
                at: format!("{file}:{}:{}", problem.line, problem.column),
                key: problem.key,
                wrong: problem.text,
                right: String::new(),
                code: ErrorCode::Driver,
            });
            problems.collect()
        }
    }
}

/// Mistakes in the list of images: those with which the compute API and the image service do not start, and properties with
/// which servers are refused. Blocks.
pub(super) fn images(loaded: &LoadedConfig) -> FileFindings {
    let config = &loaded.config;
    // With an external image service the list is not read.
    if config.glance.auth_type.is_some() {
        return FileFindings::default();
    }
    let Some(path) = config.compute_service.images_file.as_deref() else {
        return FileFindings::default();
    };
    let in_list = |line: usize, column: usize, wrong, code| ConfigProblem {
        at: format!("{}:{line}:{column}", path.display()),
        key: String::new(),
        wrong,
        right: String::new(),
        code,
    };
    let errors = match ImageList::check(path) {
        Ok(images) => return image_properties::findings(path, &images),
        Err(ImageListError::Unreadable { source, .. }) => {
            let key = "compute_service.images_file";
            let wrong = unreadable(path, &source);
            vec![at_option(loaded, key, wrong, ErrorCode::Missing)]
        }
        Err(ImageListError::Malformed { problems, .. }) => problems
            .into_iter()
            .map(|it| in_list(it.line, it.column, it.reason, ErrorCode::BadValue))
            .collect(),
        Err(ImageListError::Data {
            line,
            column,
            image,
            data,
            source,
            ..
        }) => {
            let wrong = format!("image {image:?}: the data {}", unreadable(&data, &source));
            vec![in_list(line, column, wrong, ErrorCode::Missing)]
        }
    };
    FileFindings {
        errors,
        warnings: Vec::new(),
    }
}

pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{path:?} cannot be read: {error}")
}

pub(super) fn at_option(
    loaded: &LoadedConfig,
    key: &str,
    wrong: String,
    code: ErrorCode,
) -> ConfigProblem {
    ConfigProblem {
        at: loaded.origin(key),
        key: key.to_owned(),
        wrong,
        right: String::new(),
        code,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use berth_config::{ConfigDocument, resolve};

    const MACHINE: &str =
        "[[node]]\nname = \"a\"\nmemory_mib = 1024\ndisk = 10\ncpus = { online = \"0-3\" }\n";

    /// The problems of a configuration that names both files in this directory.
    fn problems_of(folder: &Path, more: &str) -> Vec<String> {
        let folder = folder.display();
        let text = format!(
            "compute_driver = \"fake\"\n[fake]\nmachine = \"{folder}/machine.toml\"\n\
             [compute_service]\nimages_file = \"{folder}/images.toml\"\n{more}"
        );
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text,
        };
        let loaded = resolve(&[document], &[]).unwrap();
        let mut problems = machine(&loaded);
        let images = images(&loaded);
        problems.extend(images.errors.into_iter().chain(images.warnings));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn valid_files_are_no_problem_and_others_are_reported_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let (machine, images) = ("machine.toml", "images.toml");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let data = folder.path().join("a.raw");
        fs::write(&data, "abc").unwrap();
        let image = format!(
            "[[image]]\nname = \"a\"\ndisk_format = \"raw\"\nfile = \"{}\"\n",
            data.display()
        );
        write(machine, MACHINE);
        write(images, &image);
        assert_eq!(problems_of(folder.path(), ""), [""; 0]);

        let place = |name: &str, at: &str| format!("{}:{at}: ", folder.path().join(name).display());
        for (name, text, at, words) in [
            (
                machine,
                MACHINE.replace("1024", "\"many\""),
                "3:14",
                "node[0].memory_mib",
            ),
            (
                machine,
                "node = 7 7".to_owned(),
                "1:8",
                "this is not valid TOML",
            ),
            (images, format!("{image}colour = 1\n"), "5:1", "colour"),
            (
                images,
                format!("{image}size = 7\n"),
                "1:1",
                "size says 7 bytes",
            ),
            (images, image.replace("a.raw", "b.raw"), "1:1", "b.raw"),
            (
                images,
                format!("{image}properties = {{ hw_disk_bsu = \"scsi\" }}\n"),
                "5:30",
                "did you mean hw_disk_bus?",
            ),
        ] {
            write(machine, MACHINE);
            write(images, &image);
            write(name, &text);
            let problems_of = problems_of(folder.path(), "");
            assert_eq!(problems_of.len(), 1, "{problems_of:?}");
            let (found, at) = (&problems_of[0], place(name, at));
            assert!(found.starts_with(&at) && found.contains(words), "{found}");
            assert!(!found.contains('\n'), "{found}");
        }
    }

    #[test]
    fn a_missing_file_is_reported_where_it_is_named_unless_it_is_never_read() {
        let folder = tempfile::tempdir().unwrap();
        let found = problems_of(folder.path(), "");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("berth.toml:3:") && found[0].contains("fake.machine"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("berth.toml:5:") && found[1].contains("images_file"),
            "{found:?}"
        );
        let service = "[glance]\nauth_type = \"none\"\nendpoint_override = \"http://images\"\n";
        assert_eq!(problems_of(folder.path(), service).len(), 1);
    }
}
