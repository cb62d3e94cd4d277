//! The health of a function: what can be read without changing it, and how it compares to an earlier observation.

use std::fmt;

use berth_model::PciAddress;

use crate::Sysfs;
use crate::config_space::{ConfigSpace, Link};
use crate::read::{self, SysfsError};

/// Errors that the card or its port has reported since the host started (AER).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AerCounts {
    /// Errors corrected by the hardware.
    pub correctable: u64,
    /// That lost a transaction.
    pub nonfatal: u64,
    /// That lost the link.
    pub fatal: u64,
}

impl AerCounts {
    /// The lower of each.
    #[must_use]
    pub fn least(self, other: AerCounts) -> AerCounts {
        AerCounts {
            correctable: self.correctable.min(other.correctable),
            nonfatal: self.nonfatal.min(other.nonfatal),
            fatal: self.fatal.min(other.fatal),
        }
    }
}

/// One observation of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceHealth {
    pub config: ConfigSpace,
    /// Its link; `None` for a function without one, and while it is down.
    pub link: Option<Link>,
    /// The maximum number of lanes of the function and its port; `None` if unknown.
    pub most_lanes: Option<u32>,
    /// Its error counters; `None` if it has none.
    pub aer: Option<AerCounts>,
    pub driver: Option<String>,
    pub iommu_group: Option<u32>,
}

/// Something that is wrong with a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ailment {
    Vanished,
    /// Nothing responds on the bus.
    AllOnes,
    AnotherCard,
    /// Its link is slower or narrower than before, or down.
    Link {
        was: Link,
        is: Option<Link>,
    },
    /// Its link has fewer lanes than the function and its port support.
    Narrow {
        is: Link,
        /// The supported number of lanes.
        most: u32,
    },
    /// The number of fatal errors since the earlier observation.
    Fatal(u64),
    /// The number of errors with a lost transaction since the earlier observation.
    Nonfatal(u64),
    /// It is on another driver.
    Driver {
        was: Option<String>,
        is: Option<String>,
    },
    /// It is in another IOMMU group.
    Group {
        was: Option<u32>,
        is: Option<u32>,
    },
}

impl fmt::Display for Ailment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ailment::Vanished => f.write_str("it is gone"),
            Ailment::AllOnes => f.write_str("its configuration space is all ones"),
            Ailment::AnotherCard => f.write_str("another card answers in its place"),
            Ailment::Link { was, is: Some(is) } => write!(f, "its link is {is}, and was {was}"),
            Ailment::Link { was, is: None } => write!(f, "its link is down, and was {was}"),
            Ailment::Narrow { is, most } => write!(
                f,
                "its link is {is}, and it and its port can x{most}; reseat it, or have it reset where it cannot be wider"
            ),
            Ailment::Fatal(count) => write!(f, "it reported {count} fatal errors"),
            Ailment::Nonfatal(count) => write!(f, "it reported {count} errors that lost data"),
            Ailment::Driver { was, is } => {
                let shown = |driver: &Option<String>| {
                    driver.clone().unwrap_or_else(|| "no driver".to_owned())
                };
                write!(f, "it is on {}, and was on {}", shown(is), shown(was))
            }
            Ailment::Group { was, is } => {
                let shown = |group: &Option<u32>| {
                    group.map_or("none".to_owned(), |group| group.to_string())
                };
                write!(
                    f,
                    "its IOMMU group is {}, and was {}",
                    shown(is),
                    shown(was)
                )
            }
        }
    }
}

impl DeviceHealth {
    /// Whether the link came up with fewer lanes than both ends support. This needs no earlier healthy observation. The
    /// speed is not compared, because some devices lower it when idle.
    #[must_use]
    pub fn narrow(&self) -> Option<Ailment> {
        let (is, most) = (self.link?, self.most_lanes?);
        (is.width < most).then_some(Ailment::Narrow { is, most })
    }

    /// Compares a function with these ids to an earlier healthy observation. Empty if nothing is wrong. If Berth
    /// changed the driver since, set `earlier.driver` to the wanted one.
    #[must_use]
    pub fn ailments(&self, ids: (u16, u16), earlier: &DeviceHealth) -> Vec<Ailment> {
        match self.config {
            ConfigSpace::NotThere => return vec![Ailment::Vanished],
            ConfigSpace::AllOnes => return vec![Ailment::AllOnes],
            ConfigSpace::Answers { .. } => {}
        }
        let mut ailments = Vec::new();
        if !self.config.answers_as(ids.0, ids.1) {
            ailments.push(Ailment::AnotherCard);
        }
        if let Some(was) = earlier.link
            && !self.link.is_some_and(|is| is.is_at_least(was))
        {
            ailments.push(Ailment::Link { was, is: self.link });
        }
        let (now, then) = (
            self.aer.unwrap_or_default(),
            earlier.aer.unwrap_or_default(),
        );
        // Counters that were reset (the card was replugged) count from 0.
        let since = |now: u64, then: u64| if now >= then { now - then } else { now };
        let fatal = since(now.fatal, then.fatal);
        let nonfatal = since(now.nonfatal, then.nonfatal);
        ailments.extend((fatal > 0).then_some(Ailment::Fatal(fatal)));
        ailments.extend((nonfatal > 0).then_some(Ailment::Nonfatal(nonfatal)));
        if self.driver != earlier.driver {
            ailments.push(Ailment::Driver {
                was: earlier.driver.clone(),
                is: self.driver.clone(),
            });
        }
        if self.iommu_group != earlier.iommu_group {
            ailments.push(Ailment::Group {
                was: earlier.iommu_group,
                is: self.iommu_group,
            });
        }
        ailments
    }
}

impl Sysfs {
    /// Observes a function without changing it. A missing function is [`ConfigSpace::NotThere`].
    pub fn device_health(&self, address: PciAddress) -> Result<DeviceHealth, SysfsError> {
        let function = self.pci_function(address)?;
        Ok(DeviceHealth {
            config: match function {
                Some(_) => self.config_space(address)?,
                None => ConfigSpace::NotThere,
            },
            link: self.link(address)?,
            most_lanes: self.most_lanes(address)?,
            aer: self.aer_counts(address)?,
            iommu_group: function.as_ref().and_then(|it| it.iommu_group),
            driver: function.and_then(|it| it.driver),
        })
    }

    fn aer_counts(&self, address: PciAddress) -> Result<Option<AerCounts>, SysfsError> {
        let count = |file: &str, total: &'static str| {
            let path = self.pci_device(address).join(file);
            read::value(&path, "lines of a name and a count, with a total", |text| {
                let line = text.lines().find_map(|line| line.strip_prefix(total))?;
                read::decimal(line.trim())
            })
        };
        let correctable = count("aer_dev_correctable", "TOTAL_ERR_COR")?;
        let nonfatal = count("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL")?;
        let fatal = count("aer_dev_fatal", "TOTAL_ERR_FATAL")?;
        Ok(match (correctable, nonfatal, fatal) {
            (None, None, None) => None,
            _ => Some(AerCounts {
                correctable: correctable.unwrap_or(0),
                nonfatal: nonfatal.unwrap_or(0),
                fatal: fatal.unwrap_or(0),
            }),
        })
    }
}

#[cfg(test)]
mod tests;
