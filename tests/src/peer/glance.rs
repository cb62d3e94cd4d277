//! The real Glance behind a Keystone, with a file store and its own database.

use std::fs;
use std::path::PathBuf;

use super::uwsgi::Uwsgi;
use super::{PeerError, RealKeystone, installed, write};
use crate::scratch::Scratch;

/// A running Glance, in the catalog of its Keystone.
#[derive(Debug)]
pub struct RealGlance {
    service: Uwsgi,
    /// Last: the service ends before its files go.
    scratch: Scratch,
}

impl RealGlance {
    /// Starts one and enters it in the catalog.
    pub fn start(keystone: &RealKeystone) -> Result<Self, PeerError> {
        let peers = installed()?;
        let scratch = Scratch::new().map_err(PeerError::files("make a directory for Glance"))?;
        let database = scratch.join("glance.sqlite");
        fs::copy(peers.join("templates/glance.sqlite"), &database)
            .map_err(PeerError::files("copy the template of Glance's database"))?;
        let etc = scratch.join("etc");
        for folder in ["etc", "images", "staging", "tasks"] {
            fs::create_dir(scratch.join(folder))
                .map_err(PeerError::files("make a directory for Glance"))?;
        }
        let paste = "glance-api-paste.ini";
        fs::copy(peers.join("venv/etc/glance").join(paste), etc.join(paste))
            .map_err(PeerError::files("copy what comes with Glance"))?;
        let configuration = include_str!("../../peers/glance.conf")
            .replace("@DIR@", &scratch.path().display().to_string())
            .replace("@KEYSTONE@", &keystone.url());
        write(&etc.join("glance-api.conf"), &configuration)?;
        let log = scratch.join("log");
        let environment = ("OS_GLANCE_CONFIG_DIR", etc);
        let mut service = Uwsgi::new("glance.wsgi.api:application", environment, 1, log)?;
        service.start("/healthcheck")?;
        let glance = Self { service, scratch };
        keystone.set_image_endpoint(&glance.url())?;
        Ok(glance)
    }

    /// `http://127.0.0.1:PORT`, the same over a restart.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.service.port())
    }

    /// The file in which it keeps an image's bytes.
    #[must_use]
    pub fn file(&self, image: &str) -> PathBuf {
        self.scratch.join("images").join(image)
    }

    /// A graceful end. Connections are refused afterwards.
    pub fn stop(&mut self) {
        self.service.stop();
    }

    /// Starts it again on the same port and rows, where it does not run.
    pub fn restart(&mut self) -> Result<(), PeerError> {
        self.service.start("/healthcheck")
    }

    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.service.log()).unwrap_or_default()).into_owned()
    }
}
