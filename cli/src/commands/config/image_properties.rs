//! Checks the properties of the images of a list by the rules of `berth scheduler lint`, which are those of the compute API. Pure.

use std::path::Path;

use berth_config::ConfigProblem;
use berth_image::ListedImage;
use berth_model::check_image_property;
use berth_output::ErrorCode;
use berth_scheduler_lint::{Catalogue, ImageEntry, LintCode, LintFinding, lint};

use super::named_files::FileFindings;

/// The findings about image properties. An error is a property with which a server is refused. A warning is a name that no program
/// reads and that is probably misspelt.
pub(super) fn findings(list: &Path, images: &[ListedImage]) -> FileFindings {
    let mut found = FileFindings::default();
    for image in images {
        for finding in lint(&catalogue_of(image)) {
            match is_refused(image, &finding) {
                true => found.errors.push(problem(list, image, finding)),
                false => found.warnings.push(problem(list, image, finding)),
            }
        }
    }
    found
}

fn catalogue_of(image: &ListedImage) -> Catalogue {
    let properties = image.properties.iter();
    let entry = ImageEntry {
        name: image.name.clone(),
        properties: properties
            .map(|(key, property)| (key.clone(), property.value.clone()))
            .collect(),
    };
    Catalogue {
        images: vec![entry],
        ..Catalogue::default()
    }
}

/// Whether servers of the image are refused.
fn is_refused(image: &ListedImage, finding: &LintFinding) -> bool {
    let key = finding.place.key.as_deref().unwrap_or_default();
    let property = image.properties.get(key);
    finding.code != LintCode::UnknownName
        || property.is_some_and(|it| check_image_property(key, &it.value).is_err())
}

fn problem(list: &Path, image: &ListedImage, finding: LintFinding) -> ConfigProblem {
    let key = finding.place.key.unwrap_or_default();
    let (line, column) = match image.properties.get(&key) {
        Some(property) => (property.line, property.column),
        None => (1, 1),
    };
    let right = finding.hint.map(|hint| match finding.code {
        LintCode::UnknownName => format!("did you mean {hint}?"),
        _ => format!("right would be: {hint}"),
    });
    ConfigProblem {
        at: format!("{}:{line}:{column}", list.display()),
        key: String::new(),
        wrong: format!("image {:?}: {key}: {}", image.name, finding.text),
        right: right.unwrap_or_default(),
        code: ErrorCode::BadValue,
    }
}

#[cfg(test)]
mod tests {
    use berth_image::ListedProperty;

    use super::*;

    fn found(key: &str, value: &str) -> (Vec<String>, Vec<String>) {
        let property = ListedProperty {
            value: value.to_owned(),
            line: 7,
            column: 20,
        };
        let image = ListedImage {
            name: "debian".to_owned(),
            properties: [(key.to_owned(), property)].into(),
        };
        let found = findings(Path::new("/images.toml"), &[image]);
        let texts = |all: Vec<ConfigProblem>| all.iter().map(ToString::to_string).collect();
        (texts(found.errors), texts(found.warnings))
    }

    #[test]
    fn a_property_with_which_servers_are_refused_is_an_error_at_its_place() {
        for (key, value, text) in [
            (
                "hw_firmware_tpye",
                "uefi",
                "hw_firmware_tpye: no property has this name, so no filter reads it; did you mean hw_firmware_type?",
            ),
            (
                "hw_firmware_type",
                "efi",
                "hw_firmware_type: each request with it is refused: the value is `efi`; right would be: one of uefi, bios",
            ),
            (
                "hw_machine_type",
                "i440",
                "hw_machine_type: each request with it is refused: the value is `i440`: expected q35, pc, pc-q35-VERSION or \
                 pc-i440fx-VERSION",
            ),
            (
                "hw_tpm_version",
                "2.0",
                "hw_tpm_version: each request with it is refused: hw_tpm_version is not supported: guests have no TPM",
            ),
        ] {
            let expected = format!("/images.toml:7:20: image \"debian\": {text} [BERTH-E0105]");
            assert_eq!(found(key, value), (vec![expected], Vec::new()), "{key}");
        }
    }

    #[test]
    fn a_misspelt_name_that_servers_may_have_is_a_warning() {
        let text = "/images.toml:7:20: image \"debian\": os_distr: no property has this name, so no filter reads it; did you \
                    mean os_distro? [BERTH-E0105]";
        assert_eq!(
            found("os_distr", "debian"),
            (Vec::new(), vec![text.to_owned()])
        );
        assert_eq!(found("mine", "x"), (Vec::new(), Vec::new()));
        assert_eq!(found("os_distro", "debian"), (Vec::new(), Vec::new()));
    }
}
