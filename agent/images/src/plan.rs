//! [`DiskPlan`]: the requested disks of an instance.

use berth_virt::guest_spec::GuestDisks;
use serde::{Deserialize, Serialize};

use crate::config_drive::ConfigDrive;
use crate::image_source::ImageSource;

/// Maximum number of ephemeral disks, as in [`GuestDisks`].
const MOST_EPHEMERAL: usize = 25;
/// Maximum size of a disk in GiB: 1 EiB.
const LARGEST_GIB: u64 = 1 << 30;

/// Maximum size of a swap disk in MiB: 1 TiB.
const LARGEST_SWAP_MIB: u64 = 1 << 20;

/// Why a disk plan is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskPlanError {
    #[error("disks.{field}: {gib} GiB; a disk has at most {LARGEST_GIB} GiB (1 EiB)")]
    TooLarge {
        /// Either `root_gib` or `ephemeral_gib`.
        field: &'static str,
        gib: u64,
    },
    #[error("disks.swap_mib: {mib} MiB; a swap disk has at most {LARGEST_SWAP_MIB} MiB (1 TiB)")]
    LargeSwap { mib: u64 },
    #[error("disks.ephemeral_gib: 0 GiB is not a disk; leave it out")]
    Nothing,
    #[error(
        "disks.ephemeral_gib: a guest has at most {MOST_EPHEMERAL} ephemeral and swap disks, not {found}"
    )]
    TooMany { found: usize },
    /// The paths in the spec do not match the plan.
    #[error(
        "disks: the plan has {planned}, spec.disks has {found}; spec.disks must match the plan"
    )]
    Mismatch { planned: String, found: String },
}

/// The requested disks of an instance. An empty plan, the default, leaves the disks in the spec to the requester.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "PlanRecord", into = "PlanRecord")]
pub struct DiskPlan {
    image: Option<ImageSource>,
    root_gib: u64,
    ephemeral_gib: Vec<u64>,
    swap_mib: u64,
    config_drive: Option<ConfigDrive>,
    rescue: Option<ImageSource>,
}

impl DiskPlan {
    /// A root disk of `root_gib` over the image (0: the size of the image; without an image: an empty disk, or none),
    /// further empty disks, and a config drive.
    pub fn new(
        image: Option<ImageSource>,
        root_gib: u64,
        ephemeral_gib: Vec<u64>,
        config_drive: Option<ConfigDrive>,
    ) -> Result<Self, DiskPlanError> {
        if ephemeral_gib.len() > MOST_EPHEMERAL {
            let found = ephemeral_gib.len();
            return Err(DiskPlanError::TooMany { found });
        }
        let all = ephemeral_gib.iter().map(|gib| ("ephemeral_gib", *gib));
        for (field, gib) in all.chain([("root_gib", root_gib)]) {
            if gib > LARGEST_GIB {
                return Err(DiskPlanError::TooLarge { field, gib });
            }
        }
        if ephemeral_gib.contains(&0) {
            return Err(DiskPlanError::Nothing);
        }
        Ok(Self {
            image,
            root_gib,
            ephemeral_gib,
            swap_mib: 0,
            config_drive,
            rescue: None,
        })
    }

    /// The plan with a swap disk behind its ephemeral disks; 0 MiB: without one.
    pub fn with_swap(self, swap_mib: u64) -> Result<Self, DiskPlanError> {
        let found = self.ephemeral_gib.len() + usize::from(swap_mib > 0);
        if found > MOST_EPHEMERAL {
            return Err(DiskPlanError::TooMany { found });
        }
        match swap_mib {
            mib @ ..=LARGEST_SWAP_MIB => Ok(Self {
                swap_mib: mib,
                ..self
            }),
            mib => Err(DiskPlanError::LargeSwap { mib }),
        }
    }

    /// The plan with another image for the root disk.
    #[must_use]
    pub fn rebuilt_from(&self, image: ImageSource) -> Self {
        let image = Some(image);
        Self {
            image,
            ..self.clone()
        }
    }

    /// The plan with another content of its config drive. A plan without one stays so.
    #[must_use]
    pub fn with_config_drive(&self, drive: &ConfigDrive) -> Self {
        let config_drive = self.config_drive.as_ref().map(|_| drive.clone());
        Self {
            config_drive,
            ..self.clone()
        }
    }

    /// The plan with a rescue disk from this image in front. The own root disk becomes the first ephemeral disk, and
    /// must exist.
    #[must_use]
    pub fn rescued_from(&self, image: ImageSource) -> Self {
        let rescue = Some(image);
        Self {
            rescue,
            ..self.clone()
        }
    }

    /// The image of the rescue disk.
    #[must_use]
    pub fn rescue(&self) -> Option<&ImageSource> {
        self.rescue.as_ref()
    }

    /// The base images of its disks.
    pub fn images(&self) -> impl Iterator<Item = &ImageSource> {
        self.image.iter().chain(&self.rescue)
    }

    #[must_use]
    pub fn image(&self) -> Option<&ImageSource> {
        self.image.as_ref()
    }

    /// The size of the root disk in GiB. 0: the size of the image, or no root disk without an image.
    #[must_use]
    pub fn root_gib(&self) -> u64 {
        self.root_gib
    }

    /// The sizes of the ephemeral disks in GiB, each above 0.
    #[must_use]
    pub fn ephemeral_gib(&self) -> &[u64] {
        &self.ephemeral_gib
    }

    /// The size of the swap disk in MiB; 0: none.
    #[must_use]
    pub fn swap_mib(&self) -> u64 {
        self.swap_mib
    }

    #[must_use]
    pub fn config_drive(&self) -> Option<&ConfigDrive> {
        self.config_drive.as_ref()
    }

    #[must_use]
    pub fn has_root(&self) -> bool {
        self.image.is_some() || self.root_gib > 0
    }

    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.has_root()
            && self.ephemeral_gib.is_empty()
            && self.swap_mib == 0
            && self.config_drive.is_none()
            && self.rescue.is_none()
    }

    /// Checks that the disks in a spec match the plan in number and kind. Paths are not compared.
    pub fn fits(&self, disks: &GuestDisks) -> Result<(), DiskPlanError> {
        if self.is_none() {
            return Ok(());
        }
        let root = disks.root();
        let is_rescued = self.rescue.is_some();
        let extra_root = usize::from(is_rescued && self.has_root());
        let planned = (
            self.has_root() || is_rescued,
            self.image.is_some() || is_rescued,
            self.ephemeral_gib.len() + usize::from(self.swap_mib > 0) + extra_root,
            self.config_drive.is_some(),
        );
        let found = (
            root.is_some(),
            root.is_some_and(|disk| disk.base.is_some()),
            disks.ephemeral().len(),
            disks.config_drive().is_some(),
        );
        if planned == found {
            return Ok(());
        }
        let words = |(root, image, ephemeral, drive): (bool, bool, usize, bool)| {
            let root = match (root, image) {
                (false, _) => "no root disk",
                (true, true) => "a root disk over an image",
                (true, false) => "an empty root disk",
            };
            let drive = if drive { "a" } else { "no" };
            format!("{root}, {ephemeral} ephemeral or swap disks and {drive} config drive")
        };
        Err(DiskPlanError::Mismatch {
            planned: words(planned),
            found: words(found),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanRecord {
    #[serde(default)]
    image: Option<ImageSource>,
    #[serde(default)]
    root_gib: u64,
    #[serde(default)]
    ephemeral_gib: Vec<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    swap_mib: u64,
    #[serde(default)]
    config_drive: Option<ConfigDrive>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rescue: Option<ImageSource>,
}

impl TryFrom<PlanRecord> for DiskPlan {
    type Error = DiskPlanError;

    fn try_from(record: PlanRecord) -> Result<Self, DiskPlanError> {
        let plan = Self::new(
            record.image,
            record.root_gib,
            record.ephemeral_gib,
            record.config_drive,
        )?
        .with_swap(record.swap_mib)?;
        let rescue = record.rescue;
        Ok(Self { rescue, ..plan })
    }
}

impl From<DiskPlan> for PlanRecord {
    fn from(plan: DiskPlan) -> Self {
        Self {
            image: plan.image,
            root_gib: plan.root_gib,
            ephemeral_gib: plan.ephemeral_gib,
            swap_mib: plan.swap_mib,
            config_drive: plan.config_drive,
            rescue: plan.rescue,
        }
    }
}
