//! The library starts a thread and wasmtime's signal handlers, so it must never be unmapped: the BEAM closes the
//! library of a module that is purged.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
