//! The list of images: a file, read once at start, with the checksums of the data.

mod entry;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::image::{CatalogImage, Data, ImageDataLocation};
use entry::{EntryPlace, ImageDefinition};
use sums::DataSums;

/// The end of the year 9999. The time format of the API has no later years, and none before 1970.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// Why images cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageListError {
    /// The file cannot be read.
    #[error("the images {} cannot be read", path.display())]
    Unreadable {
        /// The file of images.
        path: PathBuf,
        source: io::Error,
    },
    /// The file is not a valid list of images.
    #[error("the images {}", shown_problems(path, problems))]
    Malformed {
        /// The file of images.
        path: PathBuf,
        /// What is wrong, at least one problem.
        problems: Vec<ImageListProblem>,
    },
    /// The data of an image cannot be read.
    #[error("the images {}:{line}:{column}: image {image:?}: the data {} cannot be read", path.display(), data.display())]
    Data {
        /// The file of images.
        path: PathBuf,
        /// The first line of the image's entry, from 1.
        line: usize,
        /// Its column in characters, from 1.
        column: usize,
        image: String,
        /// The file with its data.
        data: PathBuf,
        source: io::Error,
    },
}

/// A problem in the list, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageListProblem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, with the name of the image if known.
    pub reason: String,
}

/// An image of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedImage {
    pub name: String,
    pub properties: BTreeMap<String, ListedProperty>,
}

/// A property of an image, and its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedProperty {
    pub value: String,
    /// The line of the value, from 1.
    pub line: usize,
    /// The column of the value in characters, from 1.
    pub column: usize,
}

fn shown_problems(path: &Path, problems: &[ImageListProblem]) -> String {
    let each = problems.iter().map(|it| {
        let (line, column, reason) = (it.line, it.column, &it.reason);
        format!("{}:{line}:{column}: {reason}", path.display())
    });
    each.collect::<Vec<_>>().join("; ")
}

/// All images by id. The default is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageList {
    file: Option<PathBuf>,
    images: BTreeMap<Uuid, CatalogImage>,
}

impl ImageList {
    /// Reads the file, and the data of each local image without a checksum in its entry. Blocks.
    ///
    /// Errors: The file or data cannot be read, or an entry is invalid; the message names it.
    pub fn read(path: &Path) -> Result<Self, ImageListError> {
        let unreadable = |source| ImageListError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let entries = entries_of(path)?;
        let modified = std::fs::metadata(path).and_then(|it| it.modified());
        let modified = modified.map_err(unreadable)?;
        let mut images = BTreeMap::new();
        for entry in entries {
            let image = image(path, entry, modified)?;
            images.insert(image.id, image);
        }
        Ok(Self {
            file: Some(path.to_owned()),
            images,
        })
    }

    /// Validates the file, and returns what it says about its images. Of local data it checks only existence and size.
    /// Properties are for the caller to check.
    pub fn check(path: &Path) -> Result<Vec<ListedImage>, ImageListError> {
        let entries = entries_of(path)?;
        for entry in &entries {
            let EntryPlace::Here(data) = &entry.place else {
                continue;
            };
            let found = Data::open_file(data).and_then(|file| file.metadata());
            let found = found.map_err(|source| no_data(path, entry, data, source))?;
            is_as_long(path, entry, data, found.len())?;
        }
        Ok(entries.into_iter().map(listed).collect())
    }

    /// The path of the file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    #[must_use]
    pub fn get(&self, id: &Uuid) -> Option<&CatalogImage> {
        self.images.get(id)
    }

    pub fn images(&self) -> impl Iterator<Item = &CatalogImage> {
        self.images.values()
    }
}

fn listed(entry: ImageDefinition) -> ListedImage {
    let properties = entry.properties.into_iter().map(|(key, property)| {
        let listed = ListedProperty {
            value: property.value,
            line: property.at.line,
            column: property.at.column,
        };
        (key, listed)
    });
    ListedImage {
        name: entry.name,
        properties: properties.collect(),
    }
}

fn entries_of(path: &Path) -> Result<Vec<ImageDefinition>, ImageListError> {
    let text = std::fs::read_to_string(path).map_err(|source| ImageListError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    entry::entries(&text).map_err(|problems| {
        malformed(
            path,
            problems.into_iter().map(|it| ImageListProblem {
                line: it.at.line,
                column: it.at.column,
                reason: it.reason,
            }),
        )
    })
}

/// The data of an entry's image cannot be read.
fn no_data(list: &Path, entry: &ImageDefinition, data: &Path, source: io::Error) -> ImageListError {
    ImageListError::Data {
        path: list.to_owned(),
        line: entry.at.line,
        column: entry.at.column,
        image: entry.name.clone(),
        data: data.to_owned(),
        source,
    }
}

/// Checks that the data have the size in the entry.
fn is_as_long(
    list: &Path,
    entry: &ImageDefinition,
    data: &Path,
    length: u64,
) -> Result<(), ImageListError> {
    match entry.size.filter(|stated| *stated != length) {
        None => Ok(()),
        Some(stated) => Err(malformed(
            list,
            [ImageListProblem {
                line: entry.at.line,
                column: entry.at.column,
                reason: format!(
                    "image {:?}: size says {stated} bytes, and {} has {length}",
                    entry.name,
                    data.display()
                ),
            }],
        )),
    }
}

fn malformed(path: &Path, problems: impl IntoIterator<Item = ImageListProblem>) -> ImageListError {
    ImageListError::Malformed {
        path: path.to_owned(),
        problems: problems.into_iter().collect(),
    }
}

/// The image of an entry of the list that was changed last at `modified`.
fn image(
    list: &Path,
    entry: ImageDefinition,
    modified: SystemTime,
) -> Result<CatalogImage, ImageListError> {
    let stated = &entry.checksum;
    let (place, checksum, md5, size, changed) = match entry.place.clone() {
        EntryPlace::Hosts(path, checksum) => (
            ImageDataLocation::Hosts(path),
            checksum,
            None,
            entry.size,
            modified,
        ),
        EntryPlace::Url(url, checksum) => (
            ImageDataLocation::Url(url),
            checksum,
            None,
            entry.size,
            modified,
        ),
        EntryPlace::Here(path) => {
            let summed = DataSums::of(&path, stated.clone());
            let summed = summed.map_err(|source| no_data(list, &entry, &path, source))?;
            let length = summed.data.length;
            is_as_long(list, &entry, &path, length)?;
            let changed = summed.data.modified;
            let here = ImageDataLocation::Local(summed.data);
            (here, summed.checksum, summed.md5, Some(length), changed)
        }
    };
    Ok(CatalogImage {
        id: entry.id,
        name: entry.name,
        place,
        disk_format: entry.disk_format,
        checksum,
        md5,
        size,
        min_ram: entry.min_ram,
        min_disk: entry.min_disk,
        tags: entry.tags.into_iter().collect::<BTreeSet<_>>(),
        properties: entry
            .properties
            .into_iter()
            .map(|(key, property)| (key, property.value))
            .collect(),
        os_hidden: entry.os_hidden,
        created_at: changed.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST_SECOND),
    })
}
