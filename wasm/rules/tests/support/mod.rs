//! Workloads with known results, shared by tests and examples.

#![allow(dead_code)]

pub mod manners;
pub mod waltzdb;
