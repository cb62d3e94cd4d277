//! Disks in real folders, made by the real qemu-img.

mod bench;
mod config_drives;
mod disk_lifecycle;
mod downloads;
