//! A service for one test, with a list of four images and callers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use berth_http::{Prefix, found_at, mount};
use berth_image::{ImageApiOptions, ImageList, router};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt as _;

/// The image with local data.
pub(crate) const HERE: &str = "11111111-2222-4333-8444-000000000001";
/// An image with its data on the hosts.
pub(crate) const HOSTS: &str = "11111111-2222-4333-8444-000000000002";
/// An image that lists omit.
pub(crate) const HIDDEN: &str = "11111111-2222-4333-8444-000000000003";
/// The bytes of the image here.
pub(crate) const BYTES: &[u8] = b"0123456789";

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let images = self.body["images"].as_array().unwrap();
        images
            .iter()
            .map(|image| image["name"].as_str().unwrap())
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.to_vec()).unwrap()
    }
}

/// The service, below `/image` of a listener.
pub(crate) struct Service {
    router: Router,
    folder: TempDir,
}

/// The text of a list; the data of its first image are in the folder.
fn list(folder: &Path) -> String {
    let sum = "a".repeat(64);
    let data = folder.join("here.raw").display().to_string();
    format!(
        "[[image]]\nname = \"here\"\nid = \"{HERE}\"\nfile = \"{data}\"\ndisk_format = \"raw\"\nmin_ram = 64\ntags = [\"lts\"]\n\
         properties = {{ os_distro = \"debian\" }}\n\
         [[image]]\nname = \"hosts\"\nid = \"{HOSTS}\"\npath = \"/srv/b.qcow2\"\ndisk_format = \"qcow2\"\nchecksum = \"sha256:{sum}\"\nsize = 20\n\
         [[image]]\nname = \"hidden\"\nid = \"{HIDDEN}\"\nurl = \"http://c\"\nos_hidden = true\ndisk_format = \"raw\"\nchecksum = \"sha512:{sum}{sum}\"\n"
    )
}

impl Service {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("here.raw"), BYTES).unwrap();
        fs::write(folder.path().join("images.toml"), list(folder.path())).unwrap();
        let read = ImageList::read(&folder.path().join("images.toml")).unwrap();
        Self::of(read, folder)
    }

    pub(crate) fn without_images() -> Self {
        Self::of(ImageList::default(), tempfile::tempdir().unwrap())
    }

    /// Another list, in the same folder.
    pub(crate) fn over(self, list: &Path) -> Self {
        let read = ImageList::read(list).unwrap();
        Self::of(read, self.folder)
    }

    fn of(list: ImageList, folder: TempDir) -> Self {
        let at: Prefix = "/image".parse().unwrap();
        let service = router(Arc::new(list), ImageApiOptions::default());
        Self {
            router: found_at(mount(Router::new(), &at, service), "http://cloud"),
            folder,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Reply {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            bytes,
        }
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(format!("/image{path}"));
        let request = headers.iter().fold(
            request.header("host", "evil.example"),
            |request, (name, value)| request.header(*name, *value),
        );
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[("x-auth-token", "admin")]).await
    }
}
