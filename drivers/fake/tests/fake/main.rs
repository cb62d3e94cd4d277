//! The fake driver from outside: its files, its machines, its promises.

#[cfg(test)]
mod devices;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod guests;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod offered_devices;
#[cfg(test)]
mod reading;
