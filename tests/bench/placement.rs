//! The measured Placement: the real one, or the built-in one in a process of its own.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use berth_tests::berth::{BerthHome, RunningBerth};
use berth_tests::exchange::{HttpAnswer, HttpCall};
use berth_tests::peer::{PlacementSettings, RealPlacement};
use berth_tests::port::free_port;
use http::Method;
use serde_json::Value;

use crate::Outcome;
use crate::meter::Meter;

/// How long a service may take to come up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Requests to a Placement, as an operator's client makes them; not part of any measurement.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) url: String,
}

impl Api {
    /// The JSON of a GET.
    pub(crate) fn get(&self, path: &str) -> Outcome<Value> {
        Ok(self.send(Method::GET, path, None)?.json())
    }

    /// The JSON of a GET at a microversion.
    pub(crate) fn get_at(&self, version: &str, path: &str) -> Outcome<Value> {
        Ok(self.send_at(version, Method::GET, path, None)?.json())
    }

    /// The same, and nothing is made of the answer: what that takes is the caller's.
    pub(crate) fn ask_at(&self, version: &str, path: &str) -> Outcome<()> {
        self.send_at(version, Method::GET, path, None).map(drop)
    }

    /// A PUT that is to succeed.
    pub(crate) fn put(&self, path: &str, body: &Value) -> Outcome<()> {
        self.send(Method::PUT, path, Some(body)).map(drop)
    }

    /// A POST that is to succeed.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Outcome<()> {
        self.send(Method::POST, path, Some(body)).map(drop)
    }

    /// A DELETE that is to succeed.
    pub(crate) fn delete(&self, path: &str) -> Outcome<()> {
        self.send(Method::DELETE, path, None).map(drop)
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Outcome<HttpAnswer> {
        self.send_at("1.30", method, path, body)
    }

    /// Whatever is answered to a PUT.
    pub(crate) fn try_put(&self, version: &str, path: &str, body: &Value) -> Outcome<HttpAnswer> {
        Ok(self.of(version, Method::PUT, path).json(body).send()?)
    }

    fn of(&self, version: &str, method: Method, path: &str) -> HttpCall {
        HttpCall::new(method, format!("{}{path}", self.url))
            .header("x-auth-token", "admin")
            .header("openstack-api-version", &format!("placement {version}"))
    }

    fn send_at(
        &self,
        version: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Outcome<HttpAnswer> {
        let asked = format!("{method} {path}");
        let mut ask = self.of(version, method, path);
        if let Some(body) = body {
            ask = ask.json(body);
        }
        let answer = ask.send()?;
        if answer.status.is_success() {
            Ok(answer)
        } else {
            Err(format!("{asked}: {} {}", answer.status, answer.text()).into())
        }
    }
}

/// A Placement with rows that can be restored.
#[expect(clippy::large_enum_variant, reason = "there are two in a run")]
pub(crate) enum Placement {
    Real {
        service: Box<RealPlacement>,
        kept: PathBuf,
    },
    /// `berth placement serve`.
    BuiltIn {
        serving: RunningBerth,
        pid: u32,
        url: String,
        home: BerthHome,
    },
}

impl Placement {
    /// OpenStack's, empty, on a server.
    pub(crate) fn real_on(settings: PlacementSettings) -> Outcome<Self> {
        let service = Box::new(RealPlacement::start(settings)?);
        let kept = PathBuf::new();
        Ok(Self::Real { service, kept })
    }

    pub(crate) fn real() -> Outcome<Self> {
        let settings = PlacementSettings {
            workers: 2,
            ..PlacementSettings::default()
        };
        let service = Box::new(RealPlacement::start(settings)?);
        let rows = service
            .sqlite_path()
            .ok_or("Placement was asked to be on SQLite")?;
        let kept = rows.with_extension("kept");
        Ok(Self::Real { service, kept })
    }

    /// The built-in one, empty, on SQLite.
    pub(crate) fn built_in() -> Outcome<Self> {
        let home = BerthHome::new()?;
        let database = format!("sqlite:{}", home.path("placement.sqlite").display());
        Self::serve(home, &database)
    }

    /// The built-in one over the database of a URL.
    pub(crate) fn built_in_on(database: &str) -> Outcome<Self> {
        Self::serve(BerthHome::new()?, database)
    }

    fn serve(mut home: BerthHome, database: &str) -> Outcome<Self> {
        home.configure("")?;
        let listen = format!("127.0.0.1:{}", free_port()?);
        let config = home.config_file();
        let config = config.to_str().ok_or("the home's path is text")?;
        let args = [
            "placement",
            "serve",
            "--config",
            config,
            "--database",
            database,
            "--listen",
            &listen,
        ];
        let mut serving = home.start(args)?;
        let url = format!("http://{listen}");
        serving.wait_until(PATIENCE, || HttpCall::get(&url).send().is_ok())?;
        Ok(Self::BuiltIn {
            pid: serving.pid(),
            serving,
            url,
            home,
        })
    }

    /// OpenStack's on the rows of the built-in one, which ends.
    pub(crate) fn handed_over(self) -> Outcome<Self> {
        let Self::BuiltIn { serving, home, .. } = self else {
            return Ok(self);
        };
        serving.stop(PATIENCE)?;
        let mut real = Self::real()?;
        if let Self::Real { service, .. } = &mut real {
            service.stop();
            let rows = service.sqlite_path().ok_or("on SQLite")?;
            fs::copy(home.path("placement.sqlite"), rows)?;
            service.restart()?;
        }
        Ok(real)
    }

    /// What speaks to it.
    pub(crate) fn api(&self) -> Api {
        let url = match self {
            Self::Real { service, .. } => service.url(),
            Self::BuiltIn { url, .. } => url.clone(),
        };
        Api { url }
    }

    pub(crate) fn meter(&self) -> Meter {
        match self {
            Self::Real { service, .. } => service
                .pid()
                .map_or_else(|| Meter::of_group(0), Meter::of_group),
            Self::BuiltIn { pid, .. } => Meter::of_process(*pid),
        }
    }

    /// Keeps the rows as they are, for [`Placement::restore`].
    pub(crate) fn keep(&mut self) -> Outcome<()> {
        if let Self::Real { service, kept } = self {
            service.stop();
            fs::copy(service.sqlite_path().ok_or("on SQLite")?, kept)?;
            service.restart()?;
        }
        Ok(())
    }

    /// Puts the rows back that were kept.
    pub(crate) fn restore(&mut self) -> Outcome<()> {
        if let Self::Real { service, kept } = self {
            service.stop();
            fs::copy(kept, service.sqlite_path().ok_or("on SQLite")?)?;
            service.restart()?;
        }
        Ok(())
    }
}
