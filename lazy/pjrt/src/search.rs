//! The search for plugins.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use crate::error::{Code, Error, Result};

/// Environment variable with the plugin to use if the caller names none: a path, or `cpu`, `cuda`, `tpu`.
const REQUEST_VARIABLE: &str = "TORCHTPU_PJRT_PLUGIN";

/// Files that Python packages install below their site-packages folder, best first.
const CPU_FILES: &[&str] = &[
    "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
    "fastatomstruct_xla_cpu/libpjrt_cpu.so",
];
const CUDA_FILES: &[&str] = &["jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"];
const TPU_FILES: &[&str] = &["libtpu/libtpu.so"];

/// A kind of plugin, by the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginKind {
    /// XLA:CPU.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// libtpu.
    Tpu,
    /// Another one.
    Other,
}

impl PluginKind {
    /// Return the kind of the plugin in a file.
    pub fn of_file(path: &Path) -> PluginKind {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let has = |text: &str| name.contains(text);
        if has("cpu") {
            PluginKind::Cpu
        } else if has("cuda") || has("gpu") && !has("rocm") {
            PluginKind::Cuda
        } else if has("tpu") {
            PluginKind::Tpu
        } else {
            PluginKind::Other
        }
    }

    /// Return whether this machine has a device of the kind, as far as its files say.
    pub fn has_device(self) -> bool {
        match self {
            PluginKind::Cuda => Path::new("/dev/nvidiactl").exists(),
            PluginKind::Tpu => tpu_chips_present(),
            PluginKind::Cpu | PluginKind::Other => true,
        }
    }
}

static SEARCH_PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Add a folder to search before all others. A Python program adds its own site-packages folder.
pub fn add_search_path(folder: impl Into<PathBuf>) {
    let folder = folder.into();
    let mut paths = SEARCH_PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    if !paths.contains(&folder) {
        paths.push(folder);
    }
}

/// Return the file of libtpu, Google's TPU runtime and compiler. It is searched at `$TPU_LIBRARY_PATH`, in the Python
/// environment and in the system's library folders. Its compiler works without a TPU.
pub fn find_libtpu() -> Option<PathBuf> {
    let named = env::var_os("TPU_LIBRARY_PATH").map(PathBuf::from).filter(|path| path.is_file());
    let system = || ["/usr/lib/libtpu.so", "/lib/libtpu.so"].map(PathBuf::from).into_iter().find(|path| path.is_file());
    named.or_else(|| find_in_environment(TPU_FILES)).or_else(system)
}

/// Return all installed XLA:CPU plugins, best first. [`Plugin::find`](crate::Plugin::find) uses the first.
pub fn find_cpu_plugins() -> Vec<PathBuf> {
    CPU_FILES.iter().filter_map(|file| find_in_environment(&[file])).collect()
}

/// Whether this machine has TPU chips: a device file of the accelerator driver, or VFIO with an accelerator by Google
/// on the PCI bus.
pub fn tpu_chips_present() -> bool {
    chips_present_in(Path::new("/dev"), Path::new("/sys/bus/pci/devices"))
}

fn chips_present_in(dev: &Path, pci: &Path) -> bool {
    const GOOGLE: &str = "0x1ae0";
    let accelerator_files = fs::read_dir(dev).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("accel"));
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        })
    });
    if !accelerator_files && !dev.join("vfio").is_dir() {
        return false;
    }
    let read = |device: &Path, file: &str| fs::read_to_string(device.join(file)).unwrap_or_default().trim().to_string();
    let Ok(devices) = fs::read_dir(pci) else {
        // Some containers do not show the bus. Then the driver's own files decide.
        return accelerator_files;
    };
    devices.flatten().any(|device| {
        let class = read(&device.path(), "class");
        // Google's virtual disks (class 01) and network cards (class 02) have the same vendor.
        read(&device.path(), "vendor") == GOOGLE && !class.starts_with("0x01") && !class.starts_with("0x02")
    })
}

/// Return the plugin file for `request`, else for the environment variable, else the best that is installed.
pub(crate) fn find_path(request: Option<&str>) -> Result<PathBuf> {
    let variable = env::var(REQUEST_VARIABLE).ok().filter(|value| !value.is_empty());
    let cpu = || {
        let remedy = "pip install xla-cpu-pjrt";
        find_in_environment(CPU_FILES).ok_or_else(|| not_found("no XLA:CPU PJRT plugin found", remedy))
    };
    match request.or(variable.as_deref()) {
        Some("cpu") => cpu(),
        Some("cuda") => find_in_environment(CUDA_FILES)
            .ok_or_else(|| not_found("no CUDA PJRT plugin found", "pip install jax-cuda13-pjrt")),
        Some("tpu") => find_libtpu().ok_or_else(|| not_found("no TPU PJRT plugin found", "pip install libtpu")),
        Some(path) => Ok(PathBuf::from(path)),
        None if tpu_chips_present() => find_libtpu().ok_or_else(|| {
            not_found("this machine has TPU chips, but no TPU PJRT plugin was found", "pip install libtpu")
        }),
        None => cpu(),
    }
}

fn not_found(what: &str, remedy: &str) -> Error {
    let message = format!(
        "{what}\nnote: install one with `{remedy}` in the Python environment in use (looked in $VIRTUAL_ENV, .venv \
         here and above, beside the executable, and python3), or set {REQUEST_VARIABLE} to the path of a plugin"
    );
    Error::new(Code::NotFound, "find plugin", message)
}

fn find_in_environment(files: &[&str]) -> Option<PathBuf> {
    let known = || SEARCH_PATHS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    find_in(&known(), files)
        .or_else(|| {
            let environment = env::var_os("VIRTUAL_ENV").map(PathBuf::from)?;
            find_in(&site_packages(&environment), files)
        })
        .or_else(|| {
            let here = env::current_dir().ok()?;
            here.ancestors().find_map(|folder| find_in(&site_packages(&folder.join(".venv")), files))
        })
        .or_else(|| {
            let executable = env::current_exe().ok()?;
            let folder = executable.parent()?;
            let beside = |file: &&str| Path::new(file).file_name().map(|name| folder.join(name));
            files.iter().filter_map(beside).find(|path| path.is_file())
        })
        .or_else(|| find_in(&python_site_packages(), files))
}

/// Return the first file of the list that exists in any of the folders. A better plugin in a later folder precedes a
/// worse one in an earlier folder.
fn find_in(folders: &[PathBuf], files: &[&str]) -> Option<PathBuf> {
    files.iter().flat_map(|file| folders.iter().map(move |folder| folder.join(file))).find(|path| path.is_file())
}

/// Return the site-packages folders of a virtual environment, newest Python first.
fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for lib in ["lib", "lib64"] {
        let Ok(entries) = fs::read_dir(environment.join(lib)) else { continue };
        let version =
            |path: &Path| -> Option<u32> { path.file_name()?.to_str()?.strip_prefix("python3.")?.parse().ok() };
        let mut found: Vec<_> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter_map(|path| Some((version(&path)?, path.join("site-packages"))))
            .collect();
        found.sort();
        folders.extend(found.into_iter().rev().map(|(_, path)| path));
    }
    folders
}

fn python_site_packages() -> Vec<PathBuf> {
    let program = "import site, sysconfig\n\
                   print(sysconfig.get_path('purelib'))\n\
                   print(sysconfig.get_path('platlib'))\n\
                   print(site.getusersitepackages())";
    let output = Command::new("python3").args(["-c", program]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let Ok(output) = output else { return Vec::new() };
    let mut folders: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect();
    folders.dedup();
    folders
}

/// Whether a plugin is libtpu.
pub(crate) fn is_libtpu(plugin: &Path) -> bool {
    plugin.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("libtpu"))
}

/// Set the environment variables that plugins read when they are loaded, unless the user has set them.
pub(crate) fn prepare_environment(plugin: &Path) {
    // Otherwise, XLA would print log messages up to warnings in the terminal of every program.
    set_unless_set("TF_CPP_MIN_LOG_LEVEL", "2");
    if is_libtpu(plugin) && !tpu_chips_present() {
        // libtpu queries Google's metadata server about its machine, and waits minutes for an answer outside of
        // Google's cloud.
        set_unless_set("TPU_SKIP_MDS_QUERY", "1");
        // The lock file keeps two processes from driving the same chips. Without chips, any number of processes may
        // compile.
        set_unless_set("ALLOW_MULTIPLE_LIBTPU_LOAD", "1");
        // Without a metadata server, libtpu prints complaints about these missing values to stderr. They do not affect
        // compilation.
        set_unless_set("TPU_ACCELERATOR_TYPE", "v5litepod-1");
        set_unless_set("TPU_WORKER_HOSTNAMES", "localhost");
    }
}

fn set_unless_set(variable: &str, value: &str) {
    if env::var_os(variable).is_none() {
        // SAFETY: this is unsound only if a thread of C code reads the environment at the same time. Rust's own readers
        // share a lock with this call. It is made once per plugin, before the plugin has threads.
        unsafe { env::set_var(variable, value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(pci: &Path, name: &str, vendor: &str, class: &str) {
        let folder = pci.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("vendor"), format!("{vendor}\n")).unwrap();
        fs::write(folder.join("class"), format!("{class}\n")).unwrap();
    }

    #[test]
    fn chips_are_accelerators_by_google_with_a_driver() {
        let root = tempfile::tempdir().unwrap();
        let (dev, pci) = (root.path().join("dev"), root.path().join("pci"));
        fs::create_dir_all(&dev).unwrap();
        device(&pci, "0", "0x1ae0", "0x020000");
        device(&pci, "1", "0x8086", "0x120000");
        assert!(!chips_present_in(&dev, &pci));
        // A network card by Google and an accelerator of another vendor are not TPUs, with any driver.
        fs::write(dev.join("accel0"), "").unwrap();
        fs::create_dir_all(dev.join("vfio")).unwrap();
        assert!(!chips_present_in(&dev, &pci));
        device(&pci, "2", "0x1ae0", "0x120000");
        assert!(chips_present_in(&dev, &pci));
        // If the bus is not visible, the driver's device file is the evidence.
        assert!(chips_present_in(&dev, Path::new("/nonexistent")));
        fs::remove_file(dev.join("accel0")).unwrap();
        assert!(!chips_present_in(&dev, Path::new("/nonexistent")));
    }

    #[test]
    fn the_better_plugin_wins_in_any_folder() {
        let root = tempfile::tempdir().unwrap();
        let folders = [root.path().join("a"), root.path().join("b")];
        let put = |folder: &Path, file: &str| {
            fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
            fs::write(folder.join(file), "").unwrap();
        };
        assert_eq!(find_in(&folders, CPU_FILES), None);
        put(&folders[0], CPU_FILES[1]);
        assert_eq!(find_in(&folders, CPU_FILES), Some(folders[0].join(CPU_FILES[1])));
        put(&folders[1], CPU_FILES[0]);
        assert_eq!(find_in(&folders, CPU_FILES), Some(folders[1].join(CPU_FILES[0])));
    }

    #[test]
    fn the_newest_python_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["python3.9", "python3.12", "ruby"] {
            fs::create_dir_all(root.path().join("lib").join(version)).unwrap();
        }
        let found = site_packages(root.path());
        let lib = root.path().join("lib");
        assert_eq!(found, [lib.join("python3.12/site-packages"), lib.join("python3.9/site-packages")]);
    }

    #[test]
    fn a_path_is_used_unchanged() {
        assert_eq!(find_path(Some("/some/plugin.so")).unwrap(), Path::new("/some/plugin.so"));
    }
}
