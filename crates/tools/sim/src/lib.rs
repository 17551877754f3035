//! A whole cluster in one process under a seeded simulated network and failing disks
