//! Test fixtures: a folder, a misbehaving web server, images and guests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path as UrlPath, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use berth_client::{
    AdapterOptions, Auth, Downloads, HttpService, ImageClient, Secret, TransportOptions,
};
use berth_model::ConsumerUuid;
use berth_virt::guest_spec::{
    CpuModel, DesiredPower, DiskFormat, GuestBoot, GuestDevices, GuestDisks, GuestInterfaces,
    GuestName, GuestOwner, GuestSpec, GuestTopology, HostPath, ProjectId,
};
use futures_util::stream;
use sha2::{Digest, Sha256};

use crate::provision::RecreateDisks;
use crate::*;

pub(super) const MIB: usize = 1 << 20;
pub(super) const TOKEN: &str = "token-of-berth";

/// What the server answers for a path.
#[derive(Clone)]
pub(super) enum Page {
    Whole(Vec<u8>),
    /// The announced length is too large.
    Truncated(Vec<u8>),
    /// Stops sending after these bytes.
    Stalls(Vec<u8>),
    /// Sends a byte now and then, endlessly.
    Drips,
    /// Without a length, endless.
    Endless,
    Redirect(String),
    Status(u16),
    Json(String),
    /// Only with the token.
    Guarded(Vec<u8>),
}

#[derive(Clone, Default)]
struct Site {
    pages: Arc<Mutex<BTreeMap<String, Page>>>,
    asked: Arc<AtomicUsize>,
}

async fn serve(
    State(site): State<Site>,
    UrlPath(path): UrlPath<String>,
    headers: HeaderMap,
) -> Response {
    site.asked.fetch_add(1, Ordering::SeqCst);
    let page = site.pages.lock().unwrap().get(&path).cloned();
    let then = |first: Vec<u8>, next: Option<Result<Bytes, std::io::Error>>| {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(first))]);
        match next {
            Some(next) => Body::from_stream(stream::StreamExt::chain(first, stream::iter([next]))),
            None => Body::from_stream(stream::StreamExt::chain(first, stream::pending())),
        }
    };
    match page {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Page::Whole(bytes)) => bytes.into_response(),
        Some(Page::Truncated(bytes)) => {
            let length = bytes.len() + 1000;
            let broken = Err(std::io::Error::other("cut"));
            (
                [(header::CONTENT_LENGTH, length)],
                then(bytes, Some(broken)),
            )
                .into_response()
        }
        Some(Page::Stalls(bytes)) => then(bytes, None).into_response(),
        Some(Page::Drips) => Body::from_stream(stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        }))
        .into_response(),
        Some(Page::Endless) => Body::from_stream(stream::repeat_with(|| {
            Ok::<_, std::io::Error>(Bytes::from(vec![1; 1 << 16]))
        }))
        .into_response(),
        Some(Page::Redirect(to)) => (StatusCode::FOUND, [(header::LOCATION, to)]).into_response(),
        Some(Page::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        Some(Page::Json(text)) => {
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Some(Page::Guarded(bytes)) => {
            match headers.get("x-auth-token").map(|token| token.as_bytes()) {
                Some(token) if token == TOKEN.as_bytes() => bytes.into_response(),
                _ => StatusCode::UNAUTHORIZED.into_response(),
            }
        }
    }
}

pub(super) struct Bench {
    pub(super) scratch: tempfile::TempDir,
    site: Site,
    port: u16,
}

impl Bench {
    pub(super) async fn new() -> Self {
        let site = Site::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new()
            .route("/{*path}", get(serve))
            .with_state(site.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("images")).unwrap();
        Self {
            scratch,
            site,
            port,
        }
    }

    pub(super) fn page(&self, path: &str, page: Page) -> String {
        self.site
            .pages
            .lock()
            .unwrap()
            .insert(path.to_owned(), page);
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub(super) fn asked(&self) -> usize {
        self.site.asked.load(Ordering::SeqCst)
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.scratch.path().join(below)
    }

    pub(super) fn options(&self) -> DiskOptions {
        let path = self.path("instances");
        DiskOptions::new(HostPath::new(path.to_str().unwrap()).unwrap()).unwrap()
    }

    pub(super) fn sources(&self) -> ImageSources {
        self.sources_with(Duration::from_secs(60))
    }

    /// `stall`: how long a download may stall.
    fn sources_with(&self, stall: Duration) -> ImageSources {
        let options = TransportOptions::default();
        let downloads = Downloads::network(&options, stall).unwrap();
        let http = HttpService::network(&options).unwrap();
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let auth = Auth::admin_token(&endpoint, &Secret::from(TOKEN)).unwrap();
        let adapter = AdapterOptions::default();
        let images = self.path("images");
        ImageSources {
            directories: vec![HostPath::new(images.to_str().unwrap()).unwrap()],
            glance: Some(ImageClient::new(http, downloads.clone(), auth, &adapter)),
            downloads: Some(downloads),
        }
    }

    pub(super) fn disks(&self) -> Disks {
        self.disks_with(self.options())
    }

    pub(super) fn disks_with(&self, options: DiskOptions) -> Disks {
        let progress = Arc::new(LoggedProgress::default());
        Disks::open(options, self.sources(), progress).unwrap()
    }

    /// Disks with a short limit for downloads that stall.
    pub(super) fn impatient_disks(&self, options: DiskOptions) -> Disks {
        let progress = Arc::new(LoggedProgress::default());
        let sources = self.sources_with(Duration::from_millis(500));
        Disks::open(options, sources, progress).unwrap()
    }

    /// All files below a folder, without following links.
    pub(super) fn found(&self, below: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(below)) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != ".berth-lock").collect();
        names.sort();
        names
    }

    /// A raw image with some content, or the same image as qcow2.
    pub(super) fn image(&self, name: &str, format: DiskFormat) -> (PathBuf, Vec<u8>) {
        let mut bytes = vec![0; 4 * MIB];
        bytes[MIB..MIB + name.len()].copy_from_slice(name.as_bytes());
        bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
        let raw = self.path("images").join(format!("{name}.raw"));
        fs::write(&raw, &bytes).unwrap();
        if format == DiskFormat::Raw {
            return (raw, bytes);
        }
        let qcow2 = self.path("images").join(format!("{name}.qcow2"));
        qemu_img(&["convert", "-c", "-O", "qcow2"], &[&raw, &qcow2]);
        let bytes = fs::read(&qcow2).unwrap();
        (qcow2, bytes)
    }
}

/// Time limit for conditions that pass on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn qemu_img(words: &[&str], files: &[&Path]) -> String {
    let began = Instant::now();
    loop {
        let output = Command::new(DiskOptions::QEMU_IMG)
            .args(words)
            .args(files)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        // LUKS benchmarks the CPU before it encrypts, which may fail on a busy machine.
        if printed.contains("Unable to get accurate CPU usage") && began.elapsed() < PATIENCE {
            continue;
        }
        assert!(output.status.success(), "{printed}");
        return String::from_utf8(output.stdout).unwrap();
    }
}

pub(super) fn sha256(bytes: &[u8]) -> Checksum {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    Checksum::new(HashAlgorithm::Sha256, &hex).unwrap()
}

pub(super) fn of_path(path: &Path, bytes: &[u8], format: DiskFormat) -> ImageSource {
    let location = ImageLocation::Path(HostPath::new(path.to_str().unwrap()).unwrap());
    ImageSource::new(location, Some(sha256(bytes)), format).unwrap()
}

pub(super) fn of_url(url: &str, bytes: &[u8], format: DiskFormat) -> ImageSource {
    let location = ImageLocation::Url(ImageUrl::new(url).unwrap());
    ImageSource::new(location, Some(sha256(bytes)), format).unwrap()
}

pub(super) fn plan(image: ImageSource, root_gib: u64) -> DiskPlan {
    DiskPlan::new(Some(image), root_gib, vec![], None).unwrap()
}

/// A guest with the disks of a plan.
pub(super) struct Guest {
    pub(super) spec: GuestSpec,
    pub(super) plan: DiskPlan,
    pub(super) has_run_before: bool,
    pub(super) recreate: RecreateDisks,
}

impl Guest {
    pub(super) fn new(number: u32, disks: &Disks, plan: DiskPlan) -> Self {
        let mut spec = spec(number);
        spec.disks = disks.instances_path().disks(spec.uuid, &plan).unwrap();
        spec.console_log = disks.instances_path().console_log(spec.uuid).unwrap();
        Self {
            spec,
            plan,
            has_run_before: false,
            recreate: RecreateDisks::None,
        }
    }

    pub(super) fn provision(&self) -> DiskProvision<'_> {
        DiskProvision {
            spec: &self.spec,
            plan: &self.plan,
            has_run_before: self.has_run_before,
            recreate: self.recreate,
        }
    }

    pub(super) fn folder(&self) -> String {
        format!("instances/{}", self.spec.uuid)
    }
}

/// A guest without disks.
fn spec(number: u32) -> GuestSpec {
    let uuid = format!("11111111-2222-4333-8444-{number:012x}");
    let uuid: ConsumerUuid = uuid.parse().unwrap();
    GuestSpec {
        uuid,
        node: None,
        name: GuestName::new(&format!("instance-{number:08x}")).unwrap(),
        owner: GuestOwner {
            project: ProjectId::new("project").unwrap(),
            consumer: uuid,
        },
        description: None,
        topology: GuestTopology::plain(1, 128).unwrap(),
        cpu_model: CpuModel::HostPassthrough,
        machine: berth_virt::guest_spec::MachineOptions::default(),
        boot: GuestBoot::Disk,
        disks: GuestDisks::default(),
        interfaces: GuestInterfaces::default(),
        console_log: HostPath::new(&format!("/instances/{uuid}/console.log")).unwrap(),
        devices: GuestDevices::default(),
        power: DesiredPower::Running,
    }
}
