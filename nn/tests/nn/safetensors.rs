//! Tests of safetensors files: every dtype, damaged files, permissions, failed writes.

use crate::common::turn;
use torchtpu::nn::safetensors;
use torchtpu::{DType, Device, Tensor};

#[test]
fn safetensors_keep_every_dtype_and_refuse_damage() {
    let _turn = turn();
    let folder = std::env::temp_dir().join(format!("torchtpu-safetensors-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.safetensors");
    let given: Vec<(String, Tensor)> = DType::ALL
        .into_iter()
        .filter(|d| d.name() != "complex128")
        .map(|d| (d.name().to_string(), Tensor::ones(&[2, 3], d, Device::CPU).unwrap()))
        .collect();
    safetensors::save_file(&path, &given, Some([("k".to_string(), "v".to_string())].into())).unwrap();
    let found = safetensors::load_file(&path, Device::CPU).unwrap();
    assert_eq!(found.len(), given.len());
    for (name, x) in &given {
        let y = &found.iter().find(|(n, _)| n == name).unwrap().1;
        assert_eq!((y.meta(), y.to_bytes().unwrap()), (x.meta(), x.to_bytes().unwrap()));
    }
    let bytes = std::fs::read(&path).unwrap();
    for end in [0, 7, 8, 20, bytes.len() - 1] {
        let e = safetensors::load(&bytes[..end], Device::CPU).unwrap_err();
        assert!(e.message().starts_with("Error while deserializing"), "{e}");
        std::fs::write(&path, &bytes[..end]).unwrap();
        assert!(safetensors::File::open(&path).is_err());
    }
    let e = safetensors::save_file(folder.join("no").join("a"), &given, None).unwrap_err();
    assert!(e.message().contains("I/O error"), "{e}");
    assert!(safetensors::save(&[given[0].clone(), given[0].clone()], None).is_err());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn saving_keeps_permissions_and_links_and_writes_to_devices() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    let _turn = turn();
    let folder = std::env::temp_dir().join(format!("torchtpu-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mode = |path: &std::path::Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    let tensors = |n: f32| vec![("x".to_string(), Tensor::from_slice(&[n], &[1]).unwrap())];
    let read = |path: &std::path::Path| safetensors::load_file(path, Device::CPU).unwrap()[0].1.item_f64().unwrap();

    // A new file has the permissions of any new file, and a replaced file keeps its own.
    let (plain, path) = (folder.join("plain"), folder.join("a.safetensors"));
    std::fs::write(&plain, b"").unwrap();
    safetensors::save_file(&path, &tensors(1.0), None).unwrap();
    assert_eq!(mode(&path), mode(&plain));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o604)).unwrap();
    safetensors::save_file(&path, &tensors(2.0), None).unwrap();
    assert_eq!((mode(&path), read(&path)), (0o604, 2.0));

    let link = folder.join("link");
    symlink("a.safetensors", &link).unwrap();
    safetensors::save_file(&link, &tensors(3.0), None).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((mode(&path), read(&path)), (0o604, 3.0));
    let dangling = folder.join("dangling");
    symlink("new.safetensors", &dangling).unwrap();
    safetensors::save_file(&dangling, &tensors(4.0), None).unwrap();
    assert_eq!(read(&folder.join("new.safetensors")), 4.0);
    let circle = folder.join("circle");
    symlink("circle", &circle).unwrap();
    assert!(safetensors::save_file(&circle, &tensors(4.0), None).is_err());

    let full = std::path::Path::new("/dev/full");
    if full.exists() {
        assert!(safetensors::save_file(full, &tensors(1.0), None).is_err());
        safetensors::save_file("/dev/null", &tensors(1.0), None).unwrap();
        for device in ["/dev/full", "/dev/null"] {
            assert!(std::fs::metadata(device).unwrap().file_type().is_char_device());
        }
    }

    // The error names the path once, with its cause.
    let shown = folder.display().to_string();
    for e in [
        safetensors::save_file(&folder, &tensors(1.0), None).unwrap_err(),
        safetensors::load_file(&folder, Device::CPU).unwrap_err(),
        safetensors::save_file(folder.join("none/a"), &tensors(1.0), None).unwrap_err(),
        safetensors::load_file(folder.join("none/a"), Device::CPU).unwrap_err(),
    ] {
        assert_eq!(e.message().matches(&shown).count(), 1, "{e:?}");
        assert!(e.message().contains("directory"), "{e:?}");
    }
    // No temporary file is left.
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["a.safetensors", "circle", "dangling", "link", "new.safetensors", "plain"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn bytes_of_elements_survive_a_round_trip() {
    let x = Tensor::from_slice(&[1i16, -2, 3, 4, 5, 6], &[2, 3]).unwrap();
    let t = x.t().unwrap();
    let bytes = t.to_bytes().unwrap();
    assert_eq!(bytes, [1i16, 4, -2, 5, 3, 6].iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>());
    let back = Tensor::from_bytes(&bytes, &[3, 2], DType::I16).unwrap();
    assert_eq!(back.to_vec::<i16>().unwrap(), [1, 4, -2, 5, 3, 6]);
    let e = Tensor::from_bytes(&bytes, &[3, 3], DType::I16).unwrap_err();
    assert_eq!(e.message(), "12 bytes are not the elements of a tensor of shape [3, 3] and type int16");
    assert_eq!(Tensor::from_bytes(&[], &[0, 3], DType::F64).unwrap().dims()[..], [0, 3]);
    let on_meta = Tensor::ones(&[2], DType::F32, torchtpu::device("meta").unwrap()).unwrap();
    assert!(on_meta.to_bytes().is_err());
}

#[cfg(unix)]
#[test]
fn a_failed_save_leaves_the_old_file_and_no_temporary_file() {
    const FOLDER: &str = "TORCHTPU_TEST_FULL";
    const NAME: &str = "safetensors::a_failed_save_leaves_the_old_file_and_no_temporary_file";
    let _turn = turn();
    let tensors = |n: usize| vec![("x".to_string(), Tensor::ones(&[n], DType::F32, Device::CPU).unwrap())];
    // This is the child process, whose files are limited to 64 blocks of 512 bytes.
    if let Some(folder) = std::env::var_os(FOLDER) {
        let path = std::path::Path::new(&folder).join("a.safetensors");
        let e = safetensors::save_file(&path, &tensors(1 << 20), None).unwrap_err();
        assert!(e.message().starts_with("Error while serializing"), "{e}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("torchtpu-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.safetensors");
    safetensors::save_file(&path, &tensors(3), None).unwrap();
    let done = std::process::Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(FOLDER, &folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
    assert_eq!(safetensors::load_file(&path, Device::CPU).unwrap()[0].1.to_vec::<f32>().unwrap(), [1.0; 3]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}
