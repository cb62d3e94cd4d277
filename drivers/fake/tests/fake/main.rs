//! Tests of the fake driver's public interface: its files, its machines, its guarantees.

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
