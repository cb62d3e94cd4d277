//! The kernel's devices under a root path: PCI functions, SR-IOV, IOMMU groups, NUMA, mediated devices, uevents.
