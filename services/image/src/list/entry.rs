//! Parses the entries of the file; pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use berth_model::nearest_name;
use serde::Deserialize;
use toml::Spanned;
use uuid::Uuid;

use crate::image::{DataChecksum, DiskFormat};
use crate::shown::BASE_PROPERTIES;

/// Glance's limit for names, tags and property keys, in bytes.
const LONGEST: usize = 255;
/// Glance's limit for `min_ram` and `min_disk`.
const MOST: u64 = 2_147_483_647;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImagesFile {
    #[serde(default)]
    image: Vec<Spanned<ImageFileEntry>>,
}

/// An entry as written. `format`, `min_ram_mb` and `min_disk_gb` are older names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageFileEntry {
    name: String,
    id: Option<Uuid>,
    file: Option<String>,
    path: Option<String>,
    url: Option<String>,
    #[serde(alias = "format")]
    disk_format: Spanned<String>,
    #[serde(default)]
    container_format: Option<String>,
    checksum: Option<String>,
    size: Option<u64>,
    #[serde(default, alias = "min_ram_mb")]
    min_ram: u64,
    #[serde(default, alias = "min_disk_gb")]
    min_disk: u64,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    properties: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    os_hidden: bool,
}

/// A place in the text: line and column in characters, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Spot {
    /// That of a byte.
    fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let begun = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: begun.chars().count() + 1,
        }
    }
}

/// A problem in the file, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EntryProblem {
    pub(super) at: Spot,
    pub(super) reason: String,
}

/// One image, checked as far as its entry goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImageDefinition {
    pub(super) at: Spot,
    pub(super) id: Uuid,
    pub(super) name: String,
    pub(super) place: EntryPlace,
    pub(super) disk_format: DiskFormat,
    /// The checksum given by the publisher.
    pub(super) checksum: Option<DataChecksum>,
    pub(super) size: Option<u64>,
    pub(super) min_ram: u64,
    pub(super) min_disk: u64,
    pub(super) tags: Vec<String>,
    pub(super) properties: BTreeMap<String, PropertyDefinition>,
    pub(super) os_hidden: bool,
}

/// A property, and the place of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PropertyDefinition {
    pub(super) at: Spot,
    pub(super) value: String,
}

/// Where the data are. Data from elsewhere need a checksum, because anybody on the way could change them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryPlace {
    Here(PathBuf),
    Hosts(String, DataChecksum),
    Url(String, DataChecksum),
}

/// Parses the entries; names and ids are unique. Reports every entry with a problem.
pub(super) fn entries(text: &str) -> Result<Vec<ImageDefinition>, Vec<EntryProblem>> {
    let file: ImagesFile = toml::from_str(text).map_err(|error| {
        vec![EntryProblem {
            at: Spot::of(text, error.span().map_or(0, |span| span.start)),
            reason: parse_reason(error.message()),
        }]
    })?;
    let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for entry in file.image {
        let at = Spot::of(text, entry.span().start);
        let entry = entry.into_inner();
        let name = entry.name.clone();
        let mut wrong = |at: Spot, wrong: &str| {
            problems.push(EntryProblem {
                at,
                reason: format!("image {name:?}: {wrong}"),
            });
        };
        let format_at = Spot::of(text, entry.disk_format.span().start);
        let format = disk_format(entry.disk_format.get_ref());
        if format.is_none() {
            wrong(format_at, "disk_format is \"raw\" or \"qcow2\"");
        }
        let checked = checked(text, entry, at, format.unwrap_or(DiskFormat::Raw));
        match checked {
            Err(reason) => wrong(at, &reason),
            Ok(entry) if !names.insert(entry.name.clone()) => {
                wrong(at, "the name of an image must be unique");
            }
            Ok(entry) if !ids.insert(entry.id) => wrong(at, "another image has its id"),
            Ok(entry) => entries.push(entry),
        }
    }
    match problems.is_empty() {
        true => Ok(entries),
        false => Err(problems),
    }
}

/// The parser's message on one line. An unknown key gets the known one that is most similar instead of all.
fn parse_reason(message: &str) -> String {
    // "unknown field `a`, expected one of `b`, `c`"
    let mut quoted = message.split('`').skip(1).step_by(2);
    let key = quoted
        .next()
        .filter(|_| message.starts_with("unknown field "));
    let near = key.and_then(|key| {
        let near = nearest_name(key, quoted)?;
        Some(format!("unknown key {key:?}; did you mean {near:?}?"))
    });
    near.unwrap_or_else(|| {
        let lines: Vec<&str> = message.lines().map(str::trim).collect();
        lines.join("; ")
    })
}

fn disk_format(text: &str) -> Option<DiskFormat> {
    match text {
        "raw" => Some(DiskFormat::Raw),
        "qcow2" => Some(DiskFormat::Qcow2),
        _ => None,
    }
}

fn checked(
    text: &str,
    entry: ImageFileEntry,
    at: Spot,
    disk_format: DiskFormat,
) -> Result<ImageDefinition, String> {
    if !is_word(&entry.name) {
        return Err("a name has 1 to 255 bytes and no control characters".to_owned());
    }
    let checksum = entry.checksum.as_deref().map(|text| {
        DataChecksum::parse(text)
            .ok_or("checksum must be \"sha256:HEX\" or \"sha512:HEX\", as given by the publisher")
    });
    let checksum = checksum.transpose()?;
    if !matches!(entry.container_format.as_deref(), None | Some("bare")) {
        return Err("container_format must be \"bare\": no other format is supported".to_owned());
    }
    for (key, least) in [("min_ram", entry.min_ram), ("min_disk", entry.min_disk)] {
        if least > MOST {
            return Err(format!("{key} is at most {MOST}"));
        }
    }
    if let Some(tag) = entry.tags.iter().find(|tag| !is_word(tag)) {
        return Err(format!(
            "the tag {tag:?}: a tag has 1 to 255 bytes and no control characters"
        ));
    }
    for key in entry.properties.keys() {
        if !is_word(key) {
            return Err(format!(
                "the property {key:?}: its key has 1 to 255 bytes and no control characters"
            ));
        }
        if ["kernel_id", "ramdisk_id"].contains(&key.as_str()) {
            return Err(format!(
                "{key}: guests start from their disk, not by a kernel of another image"
            ));
        }
        if BASE_PROPERTIES.contains(&key.as_str()) {
            return Err(format!(
                "{key} is not a property; write it next to properties, not in it"
            ));
        }
    }
    let properties = entry.properties.into_iter().map(|(key, value)| {
        let at = Spot::of(text, value.span().start);
        let value = value.into_inner();
        (key, PropertyDefinition { at, value })
    });
    Ok(ImageDefinition {
        at,
        id: entry.id.unwrap_or_else(|| id_of(&entry.name)),
        place: place(entry.file, entry.path, entry.url, checksum.as_ref())?,
        name: entry.name,
        disk_format,
        checksum,
        size: entry.size,
        min_ram: entry.min_ram,
        min_disk: entry.min_disk,
        tags: entry.tags,
        properties: properties.collect(),
        os_hidden: entry.os_hidden,
    })
}

fn place(
    file: Option<String>,
    path: Option<String>,
    url: Option<String>,
    checksum: Option<&DataChecksum>,
) -> Result<EntryPlace, String> {
    let sum = || {
        let missing =
            "checksum = \"sha256:HEX\" is missing: data that this service does not read need one";
        checksum.cloned().ok_or_else(|| missing.to_owned())
    };
    match (file, path, url) {
        (Some(file), None, None) if file.starts_with('/') => Ok(EntryPlace::Here(file.into())),
        (None, Some(path), None) if path.starts_with('/') => Ok(EntryPlace::Hosts(path, sum()?)),
        (None, None, Some(url)) if url.starts_with("http://") || url.starts_with("https://") => {
            Ok(EntryPlace::Url(url, sum()?))
        }
        _ => Err(
            "set exactly one of file = \"/…\" (on this machine), path = \"/…\" (on each host) and url = \"http(s)://…\""
                .to_owned(),
        ),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)
}

/// The id of an image without an explicit one, derived from its name.
fn id_of(name: &str) -> Uuid {
    Uuid::new_v5(
        &Uuid::NAMESPACE_URL,
        format!("berth:image:{name}").as_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(lines: &str) -> String {
        let sum = "a".repeat(64);
        format!("[[image]]\nname = \"cirros\"\nchecksum = \"sha256:{sum}\"\n{lines}\n")
    }

    #[test]
    fn an_image_has_a_place_a_format_a_checksum_and_an_id_that_stays() {
        let text = entry("url = \"https://images/c\"\ndisk_format = \"qcow2\"\nmin_disk = 1");
        let first = &entries(&text).unwrap()[0];
        assert_eq!((first.min_ram, first.min_disk), (0, 1));
        assert_eq!(first.id, id_of("cirros"));
        assert_eq!(entries("").unwrap(), []);
    }

    #[test]
    fn the_older_names_of_keys_mean_the_same() {
        let lines = |format: &str, ram: &str, disk: &str| {
            entry(&format!(
                "path = \"/c\"\n{format} = \"raw\"\n{ram} = 64\n{disk} = 2"
            ))
        };
        let older = entries(&lines("format", "min_ram_mb", "min_disk_gb")).unwrap();
        let newer = entries(&lines("disk_format", "min_ram", "min_disk")).unwrap();
        assert_eq!(older, newer);
        assert_eq!((newer[0].min_ram, newer[0].min_disk), (64, 2));
    }

    #[test]
    fn data_that_are_here_need_no_checksum() {
        let text = "[[image]]\nname = \"c\"\nfile = \"/c\"\ndisk_format = \"raw\"\n";
        assert_eq!(
            entries(text).unwrap()[0].place,
            EntryPlace::Here("/c".into())
        );
        let elsewhere = &entries(&text.replace("file", "path")).unwrap_err()[0].reason;
        assert!(elsewhere.contains("checksum"), "{elsewhere}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let raw = |more: &str| entry(&format!("path = \"/c\"\nformat = \"raw\"\n{more}"));
        for (text, named) in [
            (entry("format = \"raw\""), "one of file"),
            (entry("path = \"c.raw\"\nformat = \"raw\""), "one of file"),
            (entry("file = \"c.raw\"\nformat = \"raw\""), "one of file"),
            (
                entry("path = \"/c\"\nurl = \"http://c\"\nformat = \"raw\""),
                "one of file",
            ),
            (
                entry("path = \"/c\"\nfile = \"/c\"\nformat = \"raw\""),
                "one of file",
            ),
            (
                entry("path = \"/c\"\nformat = \"iso\""),
                "\"raw\" or \"qcow2\"",
            ),
            (raw("colour = 1"), "colour"),
            (
                raw("").replace("format", "disk_fromat"),
                "unknown key \"disk_fromat\"; did you mean \"disk_format\"?",
            ),
            (raw("container_format = \"ovf\""), "\"bare\""),
            (raw("min_ram = 2147483648"), "min_ram is at most"),
            (raw("tags = [\"\"]"), "the tag \"\""),
            (
                raw("properties = { size = \"1\" }"),
                "size is not a property",
            ),
            (
                raw("properties = { kernel_id = \"1\" }"),
                "kernel_id: guests start from their disk",
            ),
            (raw("properties = { \"\" = \"1\" }"), "the property \"\""),
            (raw("").replace("sha256", "md5"), "sha512:HEX"),
            (raw("").replace("cirros", ""), "1 to 255 bytes"),
            (raw("").repeat(2), "must be unique"),
            (
                raw(&format!("id = \"{}\"", id_of("b"))) + &raw("").replace("cirros", "b"),
                "another image has its id",
            ),
        ] {
            let wrong = &entries(&text).unwrap_err()[0].reason;
            assert!(wrong.contains(named) && !wrong.contains('\n'), "{wrong}");
        }
    }

    #[test]
    fn errors_are_reported_with_their_position() {
        let good = entry("path = \"/c\"\ndisk_format = \"raw\"");
        let lines = good.lines().count();
        let second = good.replace("cirros", "b");
        for (text, line, column) in [
            (
                good.clone() + &second.replace("\"raw\"", "\"iso\""),
                lines + 5,
                15,
            ),
            (good.clone() + &second + "colour = 1\n", 2 * lines + 1, 1),
            (good + "colour = \"é\" 7\n", lines + 1, 14),
        ] {
            let at = entries(&text).unwrap_err()[0].at;
            assert_eq!(at, Spot { line, column }, "{text}");
        }
    }

    #[test]
    fn every_problem_of_an_entry_is_reported_at_its_place() {
        let text = "[[image]]\nname = \"x\"\ndisk_format = \"iso\"\n";
        let problems = entries(text).unwrap_err();
        let shown: Vec<String> = problems
            .iter()
            .map(|it| format!("{}:{}: {}", it.at.line, it.at.column, it.reason))
            .collect();
        assert_eq!(
            shown,
            [
                "3:15: image \"x\": disk_format is \"raw\" or \"qcow2\"",
                "1:1: image \"x\": set exactly one of file = \"/…\" (on this machine), path = \"/…\" (on each host) and url \
                 = \"http(s)://…\""
            ]
        );
    }
}
