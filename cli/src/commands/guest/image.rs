//! Files on the command line: an image with its checksum, and user data in base64.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, absolute};

use berth_config::regular_file;
use berth_output::{ErrorCode, Failure};
use berth_wire::guest::{ImageBody, ImageLocation};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// The read size for files.
const PIECE: usize = 1 << 20;
/// The size limit of a text; the agent accepts less.
const LARGEST_TEXT: u64 = 1 << 20;

/// What the options say about an image.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct OfImage {
    /// The checksum of the image; computed for a path.
    #[arg(long, value_name = "sha256:HEX", requires = "image")]
    image_checksum: Option<String>,
    /// The format of the image, if its name does not show it.
    #[arg(long, value_name = "FORMAT", value_parser = ["qcow2", "raw"], requires = "image")]
    image_format: Option<String>,
}

/// Parses `KEY=VALUE` of the command line.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is expected".to_owned()),
    }
}

/// The pairs of a repeated option; a repeated key is refused.
pub(super) fn pairs(
    option: &str,
    pairs: &[(String, String)],
) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    for (key, value) in pairs {
        if all.insert(key.clone(), value.clone()).is_some() {
            let what = format!("{option}: key {key} is given twice");
            return Err(Failure::new(ErrorCode::Usage, what));
        }
    }
    Ok(all)
}

/// Parses `--image`: a path on this host, an http(s) URL, or the UUID of an image in the image service.
pub(super) fn image(image: &str, known: &OfImage) -> Result<ImageBody, Failure> {
    let is_elsewhere = Uuid::parse_str(image).is_ok()
        || image.starts_with("http://")
        || image.starts_with("https://");
    if !is_elsewhere && !Path::new(image).exists() {
        let what = format!("there is no file {image}");
        return Err(Failure::new(ErrorCode::File, what).hint(
            "name an image by its path, its URL, or its UUID in the image service: openstack image list",
        ));
    }
    let checksum = known.image_checksum.clone();
    let format = match known
        .image_format
        .as_deref()
        .or_else(|| format_by_name(image))
    {
        Some(format) => format.to_owned(),
        None => {
            let what = format!("--image: the name {image:?} does not show the format");
            return Err(Failure::new(ErrorCode::Usage, what)
                .hint("add --image-format qcow2, or --image-format raw"));
        }
    };
    let (location, checksum) = if let Ok(uuid) = Uuid::parse_str(image) {
        (ImageLocation::Glance(uuid), checksum)
    } else if image.starts_with("http://") || image.starts_with("https://") {
        if checksum.is_none() {
            return Err(Failure::new(
                ErrorCode::Usage,
                "--image: a download needs a checksum, because it could be modified in transit",
            )
            .hint("add --image-checksum sha256:HEX, as published with the image"));
        }
        (ImageLocation::Url(image.to_owned()), checksum)
    } else {
        let path = absolute(image).unwrap_or_else(|_| Path::new(image).to_owned());
        let checksum = match checksum {
            Some(checksum) => checksum,
            None => of_file(&path)?,
        };
        let path = path.display().to_string();
        (ImageLocation::Path(path), Some(checksum))
    };
    Ok(ImageBody {
        location,
        checksum,
        format,
        properties: BTreeMap::new(),
    })
}

/// The format by the file name's ending. The image service knows the format of its images.
fn format_by_name(image: &str) -> Option<&'static str> {
    let end = image.rsplit('.').next().unwrap_or_default();
    match end.to_ascii_lowercase().as_str() {
        "qcow2" => Some("qcow2"),
        "raw" | "img" => Some("raw"),
        _ => None,
    }
}

fn of_file(path: &Path) -> Result<String, Failure> {
    let unreadable = |error: std::io::Error| {
        let what = format!("--image: {} cannot be read", path.display());
        Failure::caused(ErrorCode::File, what, &error)
            .hint("name a file on this host, an http(s) URL, or the UUID of an image in the image service")
    };
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(unreadable(regular_file::refusal(&found)));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece).map_err(unreadable)?;
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
    }
    Ok(format!("sha256:{:x}", hash.finalize()))
}

/// Reads a text that an option names: a file, or a pipe.
pub(super) fn text(option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(LARGEST_TEXT + 1).read_to_end(&mut content));
    let read = read.and_then(|read| match u64::try_from(read) {
        Ok(read) if read <= LARGEST_TEXT => Ok(()),
        _ => Err(std::io::ErrorKind::FileTooLarge.into()),
    });
    read.map(|()| content).map_err(|error| {
        let what = format!("{option}: {} cannot be read", path.display());
        Failure::caused(ErrorCode::File, what, &error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_a_path_a_url_or_a_uuid_and_says_its_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.qcow2");
        std::fs::write(&path, b"abc").unwrap();
        let local = image(&path.display().to_string(), &OfImage::default()).unwrap();
        assert_eq!(local.format, "qcow2");
        assert_eq!(
            local.checksum.as_deref(),
            Some("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
        let glance = "11111111-2222-4333-8444-0000000000aa";
        let raw = OfImage {
            image_format: Some("raw".to_owned()),
            ..OfImage::default()
        };
        let glance = image(glance, &raw).unwrap();
        assert!(matches!(glance.location, ImageLocation::Glance(_)));
        for (name, sentence) in [
            ("/nowhere/a.raw", "error: there is no file /nowhere/a.raw ["),
            ("debian", "error: there is no file debian ["),
            ("/dev/zero", "it is not a regular file"),
            ("/dev/null", "does not show the format"),
            ("https://host/a.qcow2", "a download needs a checksum"),
        ] {
            let known = OfImage {
                image_format: (name == "/dev/zero").then(|| "raw".to_owned()),
                ..OfImage::default()
            };
            let refused = image(name, &known).unwrap_err().explain();
            assert!(refused.contains(sentence), "{refused}");
        }
        let refused = text("--user-data", Path::new("/dev/zero")).unwrap_err();
        let refused = refused.explain();
        assert!(
            refused.contains("--user-data: /dev/zero cannot"),
            "{refused}"
        );
        let twice = vec![("a".to_owned(), "b".to_owned()); 2];
        let refused = pairs("--image-property", &twice).unwrap_err().explain();
        assert!(
            refused.contains("--image-property: key a is given twice"),
            "{refused}"
        );
    }
}
