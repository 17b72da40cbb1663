//! Reports a panic to the runner of tests in the sandbox (`wasm/host/examples/run_tests.rs`), where nothing can be printed.

use std::panic;

#[link(wasm_import_module = "tests")]
extern "C" {
    fn report(text: *const u8, length: usize);
}

/// Runs before the tests, like all functions in this section. The linker must be told to look for the name: no code of a test
/// uses this part of the crate (`scripts/cargo_wasm32`).
#[used]
#[no_mangle]
#[link_section = ".init_array"]
static BEFORE_TESTS: extern "C" fn() = report_panics;

extern "C" fn report_panics() {
    panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        // SAFETY: the runner reads the text while it is borrowed.
        unsafe { report(text.as_ptr(), text.len()) };
    }));
}
