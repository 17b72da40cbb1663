//! Writes the JavaScript and the types beside a module that was compiled with wasm-bindgen:
//! `be_tree_bindgen MODULE FOLDER`.

use std::env::args_os;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let (Some(module), Some(folder)) = (args_os().nth(1), args_os().nth(2)) else {
        eprintln!("usage: be_tree_bindgen MODULE FOLDER");
        return ExitCode::FAILURE;
    };
    let mut bindgen = Bindgen::new();
    let bindgen = bindgen.input_path(module).typescript(true).remove_name_section(true).remove_producers_section(true);
    match bindgen.web(true).and_then(|bindgen| bindgen.generate(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
