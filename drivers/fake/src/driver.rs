//! The fake driver: reads the machine at each call, and parses its text only if it changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use berth_model::{ConsumerUuid, MacAddress, NodeName};
use berth_virt::guest_spec::GuestSpec;
use berth_virt::{
    DeviceError, DeviceReset, GuestDestroyOutcome, GuestError, GuestOnHost, GuestPowerOutcome,
    GuestRedefineOutcome, GuestSpawnOutcome, HostEvents, HostView, InterfaceOutcome, ObserveError,
    PowerAction, PreparedDevice, VirtDriver, WantedDevice,
};

use crate::guest_file::GuestFile;
use crate::guests::GuestBook;
use crate::machine::Machine;
use crate::observation_cache::{CacheContent, MachineView, ObservationCache};
use crate::problem::MachineError;
use crate::watch::{Changes, Stamp};

/// The maximum size of a machine file in bytes, enough for tens of thousands of guests.
const LIMIT: u64 = 16 << 20;

/// A machine in a file, or in memory.
#[derive(Debug)]
pub struct FakeDriver {
    source: MachineSource,
    last: Mutex<Option<ObservationCache>>,
    /// The guests created by the driver.
    guests: Arc<GuestFile>,
}

#[derive(Debug)]
enum MachineSource {
    File(PathBuf),
    Text(Arc<Mutex<MachineText>>),
}

#[derive(Debug)]
struct MachineText {
    name: String,
    text: String,
    replaced: u64,
}

impl FakeDriver {
    /// Opens the machine in this file. The file must be valid now; it may be edited at any time later.
    pub fn from_file(path: &Path) -> Result<Self, MachineError> {
        Self::of(MachineSource::File(path.to_owned()))
    }

    /// Creates a machine from its text. `name` is the file name in error texts.
    pub fn from_text(name: &str, text: &str) -> Result<Self, MachineError> {
        Self::of(MachineSource::text(name, text.to_owned()))
    }

    /// This machine, in memory.
    #[must_use]
    pub fn from_machine(name: &str, machine: &Machine) -> Self {
        Self {
            source: MachineSource::text(name, machine.to_toml()),
            last: Mutex::new(None),
            guests: Arc::new(GuestFile::in_memory()),
        }
    }

    /// Reads the machine once, so that the first call finds it parsed.
    fn of(source: MachineSource) -> Result<Self, MachineError> {
        let guests = match &source {
            MachineSource::File(path) => {
                let mut name = path.as_os_str().to_owned();
                name.push(".guests");
                GuestFile::at(name.into())
            }
            MachineSource::Text(_) => GuestFile::in_memory(),
        };
        let driver = Self {
            source,
            last: Mutex::new(None),
            guests: Arc::new(guests),
        };
        driver.read()?;
        Ok(driver)
    }

    /// Stores the guests that the driver creates in this file, which need not exist yet.
    #[must_use]
    pub fn with_guests_at(mut self, path: &Path) -> Self {
        self.guests = Arc::new(GuestFile::at(path.to_owned()));
        self
    }

    /// Replaces the machine's text like an editor would, without checking it: the next call reports errors. For a
    /// machine in a file, this writes the file.
    pub fn replace(&self, text: &str) -> std::io::Result<()> {
        match &self.source {
            MachineSource::File(path) => berth_files::replace(path, text.as_bytes(), 0o644),
            MachineSource::Text(machine) => {
                let mut machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
                text.clone_into(&mut machine.text);
                machine.replaced += 1;
                Ok(())
            }
        }
    }

    fn read(&self) -> Result<Arc<MachineView>, MachineError> {
        let stamp = self.source.stamp_reader()();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = last.as_ref().and_then(|last| last.at(&stamp)) {
            return Ok(Arc::clone(machine));
        }
        let (name, text) = self.source.read()?;
        let keep = match stamp.is_fresh(SystemTime::now()) {
            true => CacheContent::Text,
            false => CacheContent::Nothing,
        };
        let seen = ObservationCache::of(last.take(), stamp, text, keep, |text| {
            Machine::from_text(&name, text).map(|machine| MachineView::from(&machine))
        })?;
        Ok(Arc::clone(last.insert(seen).machine_view()))
    }
}

impl FakeDriver {
    /// The parsed machine, for operations on guests.
    fn machine(&self) -> Result<Arc<MachineView>, GuestError> {
        self.read().map_err(|error| GuestError::Malformed {
            origin: "the machine".to_owned(),
            reason: error.to_string(),
        })
    }

    /// Does something with a device in the book.
    fn with_devices<T>(
        &self,
        work: impl FnOnce(&mut GuestBook, &MachineView) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let unobservable = |reason: String| DeviceError::Unobservable { reason };
        let machine = self
            .read()
            .map_err(|error| unobservable(error.to_string()))?;
        // The result may be a refusal that leaves the book unchanged.
        let outcome = self.guests.change(|book| Ok(work(book, &machine)));
        outcome.map_err(|error| unobservable(error.to_string()))?
    }
}

impl MachineSource {
    fn text(name: &str, text: String) -> Self {
        MachineSource::Text(Arc::new(Mutex::new(MachineText {
            name: name.to_owned(),
            text,
            replaced: 0,
        })))
    }

    /// The machine's name and text.
    fn read(&self) -> Result<(String, String), MachineError> {
        match self {
            MachineSource::File(path) => read(path),
            MachineSource::Text(machine) => {
                let machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
                Ok((machine.name.clone(), machine.text.clone()))
            }
        }
    }

    /// Returns a function that reads the source's stamp and does not borrow the driver.
    fn stamp_reader(&self) -> Box<dyn FnMut() -> Stamp + Send> {
        match self {
            MachineSource::File(path) => {
                let path = path.clone();
                Box::new(move || Stamp::of_file(&path))
            }
            MachineSource::Text(machine) => {
                let machine = Arc::clone(machine);
                Box::new(move || {
                    let machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
                    Stamp::Text(machine.replaced)
                })
            }
        }
    }
}

fn read(path: &Path) -> Result<(String, String), MachineError> {
    let file = path.display().to_string();
    let unreadable = |source| MachineError::Unreadable {
        file: file.clone(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() && !metadata.is_dir() {
        // Reading a pipe or a device could block forever.
        let reason = "it is not a regular file";
        return Err(unreadable(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            reason,
        )));
    }
    let size = metadata.len();
    if size > LIMIT {
        let limit = LIMIT;
        return Err(MachineError::TooLarge { file, size, limit });
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    Ok((file, text))
}

impl VirtDriver for FakeDriver {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn observe(&self) -> Result<HostView, ObserveError> {
        let mut view = self.read().map_err(refused)?.view.clone();
        self.guests.book().map_err(unobservable)?.add_to(&mut view);
        Ok(view)
    }

    fn watch(&self) -> HostEvents {
        let (mut stamp, guests) = (self.source.stamp_reader(), Arc::clone(&self.guests));
        Box::pin(Changes::from_now(move || (stamp(), guests.stamp())))
    }

    async fn spawn(&self, spec: &GuestSpec) -> Result<GuestSpawnOutcome, GuestError> {
        let machine = self.machine()?;
        self.guests.change(|book| book.spawn(spec, &machine.view))
    }

    async fn destroy(&self, uuid: ConsumerUuid) -> Result<GuestDestroyOutcome, GuestError> {
        let machine = self.machine()?;
        self.guests.change(|book| book.destroy(uuid, &machine.view))
    }

    async fn guests(&self) -> Result<BTreeMap<ConsumerUuid, GuestOnHost>, GuestError> {
        Ok(self.guests.book()?.all(&self.machine()?.view))
    }

    async fn guest(&self, uuid: ConsumerUuid) -> Result<Option<GuestOnHost>, GuestError> {
        Ok(self.guests.book()?.one(uuid, &self.machine()?.view))
    }

    async fn power(
        &self,
        uuid: ConsumerUuid,
        action: PowerAction,
    ) -> Result<GuestPowerOutcome, GuestError> {
        let machine = self.machine()?;
        self.guests
            .change(|book| book.power(uuid, action, &machine.view))
    }

    async fn redefine(&self, spec: &GuestSpec) -> Result<GuestRedefineOutcome, GuestError> {
        let machine = self.machine()?;
        self.guests
            .change(|book| book.redefine(spec, &machine.view))
    }

    async fn attach_interface(
        &self,
        spec: &GuestSpec,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        self.guests.change(|book| book.attach_interface(spec, mac))
    }

    async fn detach_interface(
        &self,
        uuid: ConsumerUuid,
        mac: MacAddress,
    ) -> Result<InterfaceOutcome, GuestError> {
        self.guests.change(|book| book.detach_interface(uuid, mac))
    }

    async fn suspend(&self, uuid: ConsumerUuid) -> Result<GuestPowerOutcome, GuestError> {
        let machine = self.machine()?;
        self.guests.change(|book| book.suspend(uuid, &machine.view))
    }

    async fn live_migrate(
        &self,
        uuid: ConsumerUuid,
        _destination: &NodeName,
    ) -> Result<(), GuestError> {
        if let Some(guest) = self.guest(uuid).await? {
            guest.refuse_if_it_holds_devices(
                uuid,
                "be moved while it runs",
                "a device of this host cannot be moved",
            )?;
        }
        Err(GuestError::Unsupported {
            driver: "fake",
            action: "live-migrate a guest; stop it and create it on the other host",
        })
    }

    async fn check_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        self.with_devices(|book, machine| book.check_device(wanted, &machine.view, &machine.faults))
    }

    async fn prepare_device(&self, wanted: &WantedDevice) -> Result<(), DeviceError> {
        self.with_devices(|book, machine| {
            book.prepare_device(wanted, &machine.view, &machine.faults)
        })
    }

    async fn reset_device(&self, wanted: &WantedDevice) -> Result<DeviceReset, DeviceError> {
        self.with_devices(|book, machine| book.reset_device(wanted, &machine.view, &machine.faults))
    }

    async fn prepared_devices(&self) -> Result<Vec<PreparedDevice>, DeviceError> {
        self.with_devices(|book, _| Ok(book.prepared_devices()))
    }
}

/// An unreadable guest book hides what the guests use, so the whole observation fails.
fn unobservable(error: GuestError) -> ObserveError {
    match error {
        GuestError::State { path, source } => ObserveError::Unreadable { path, source },
        other => ObserveError::Malformed {
            origin: "the created guests".to_owned(),
            reason: other.to_string(),
        },
    }
}

/// The machine was valid when the driver was created and is not now: an edit is in progress or wrong.
fn refused(error: MachineError) -> ObserveError {
    match error {
        MachineError::Unreadable { file, source } => {
            ObserveError::Unreadable { path: file, source }
        }
        MachineError::TooLarge { ref file, .. } => ObserveError::Malformed {
            origin: file.clone(),
            reason: error.to_string(),
        },
        MachineError::Refused { file, problems } => {
            let more = match problems.len() {
                0 | 1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            let Some(first) = problems.into_iter().next() else {
                let reason = "it does not describe a machine".to_owned();
                return ObserveError::Malformed {
                    origin: file,
                    reason,
                };
            };
            let key = match first.key.as_str() {
                "" => String::new(),
                key => format!(": {key}"),
            };
            ObserveError::Malformed {
                origin: format!("{file}:{}:{}{key}", first.line, first.column),
                reason: format!("{}{more}", first.text),
            }
        }
    }
}
