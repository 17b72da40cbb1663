//! Writes the JavaScript and the types beside a module that was compiled with wasm-bindgen:
//! `be_tree_bindgen MODULE FOLDER`. With a third argument, `metered`, JavaScript can end the calls of the module (`meter`).

mod meter;

use std::env::args_os;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = args_os().skip(1).collect();
    let written = match &arguments[..] {
        [module, folder] => write(module.as_ref(), folder.as_ref(), false),
        [module, folder, metered] if metered == "metered" => write(module.as_ref(), folder.as_ref(), true),
        _ => Err("usage: be_tree_bindgen MODULE FOLDER [metered]".into()),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn write(module: &Path, folder: &Path, is_metered: bool) -> Result<(), Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).typescript(true).remove_name_section(!is_metered).remove_producers_section(true);
    bindgen.web(true)?.generate(folder)?;
    if is_metered {
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let written = folder.join(format!("{name}_bg.wasm"));
        fs::write(&written, meter::metered(&fs::read(&written)?)?)?;
    }
    Ok(())
}
