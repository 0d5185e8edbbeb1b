//! Lines of the user's Python program: the innermost frame outside of this package.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use torchtpu_tensor::site::{self, Line, Site};

/// The file of each code object, or `None` for code of this package. The map owns the objects, so their addresses stay
/// theirs.
type Files = HashMap<usize, (Py<PyAny>, Option<Arc<str>>)>;

static FILES: Mutex<Option<Files>> = Mutex::new(None);
static PACKAGE: OnceLock<String> = OnceLock::new();

/// Return the file of a code object, if it is not of this package.
fn file_of(code: &Bound<'_, PyAny>) -> Option<Arc<str>> {
    let address = code.as_ptr() as usize;
    let mut files = FILES.lock().unwrap_or_else(|e| e.into_inner());
    let files = files.get_or_insert_default();
    if let Some((_, file)) = files.get(&address) {
        return file.clone();
    }
    let file: String = code.getattr("co_filename").ok()?.extract().ok()?;
    let package = PACKAGE.get()?;
    // A user cannot open the lines of the import machinery and of decorators that are made from text.
    let is_users = !file.starts_with(package.as_str()) && !file.starts_with("<frozen");
    let file = is_users.then(|| Arc::from(file));
    files.insert(address, (code.clone().unbind(), file.clone()));
    file
}

/// Return the innermost line outside of this package.
fn line(py: Python<'_>) -> Option<Line> {
    // SAFETY: the thread is attached. The frame is borrowed from the running thread, so this takes a reference of its
    // own.
    let mut frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) }?;
    let back = PyString::intern(py, "f_back");
    loop {
        // SAFETY: `frame` is a frame object, and the result is a new reference.
        let code = unsafe { Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetCode(frame.as_ptr().cast()).cast()) }?;
        if let Some(file) = file_of(&code) {
            // SAFETY: `frame` is a frame object.
            let line = unsafe { ffi::PyFrame_GetLineNumber(frame.as_ptr().cast()) };
            return Some(Line { file, line: u32::try_from(line).ok()? });
        }
        frame = frame.getattr(&back).ok()?;
        if frame.is_none() {
            return None;
        }
    }
}

/// Return file and line of the user's call, such as `train.py:12`.
pub(crate) fn user_line(py: Python<'_>) -> Option<String> {
    line(py).map(|l| format!("{}:{}", l.file, l.line))
}

fn find() -> Site {
    Python::try_attach(line).flatten().map_or(0, site::number)
}

/// Return file and line, for errors that are raised later.
fn place() -> Option<String> {
    Python::try_attach(line).flatten().map(|l| format!("{}, line {}", l.file, l.line))
}

/// Set the folder of this package, whose files do not count as the user's.
#[pyfunction]
fn _set_package_folder(folder: String) {
    let _ = PACKAGE.set(folder + std::path::MAIN_SEPARATOR_STR);
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    site::install(find);
    torchtpu_tensor::state::install_place(place);
    m.add_function(wrap_pyfunction!(_set_package_folder, m)?)?;
    Ok(())
}
