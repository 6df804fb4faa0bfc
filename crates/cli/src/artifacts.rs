//! `capstan artifacts`: manages the folder of software.

#![allow(clippy::print_stdout, reason = "it is asked to print")]

use anyhow::{Context, Result, bail, ensure};
use capstan_artifacts::{Addition, Entry, Folder};

use crate::args::{AddArtifactArgs, ArtifactsFolderArgs, ArtifactsVerb, ListFormat};
use crate::progress::waiting_blocked;
use crate::terminal::{columns, padded};
use crate::up;

pub(crate) async fn run(verb: ArtifactsVerb) -> Result<()> {
    match verb {
        ArtifactsVerb::Add(args) => waiting_blocked("copying the file", move || add(&args)).await,
        ArtifactsVerb::List(args) => list(&folder(&args.folder)?, args.output),
        ArtifactsVerb::Verify(args) => {
            let folder = folder(&args)?;
            waiting_blocked("computing digests", move || verify(&folder)).await
        }
    }
}

fn folder(args: &ArtifactsFolderArgs) -> Result<Folder> {
    let path = match (&args.artifacts_dir, &args.data_dir) {
        (Some(folder), _) => folder.clone(),
        (None, Some(data)) => data.join("artifacts"),
        (None, None) => up::default_data_dir()?.join("artifacts"),
    };
    Ok(Folder::new(path))
}

fn add(args: &AddArtifactArgs) -> Result<()> {
    let folder = folder(&args.folder)?;
    let addition = Addition { name: args.name.clone(), version: args.version.clone(), arch: args.arch };
    let entry = match (&args.file, &args.url, args.sha256, args.size) {
        (Some(file), _, sha256, _) => folder.add_file(addition, file, sha256.as_ref())?,
        (None, Some(url), Some(sha256), Some(size)) => folder.add_url(addition, url.clone(), sha256, size)?,
        // clap has seen to it.
        _ => bail!("pass --file, or --url with --sha256 and --size"),
    };
    println!("{}: sha256 {}, {} bytes", entry.title(), entry.sha256, entry.size);
    Ok(())
}

fn list(folder: &Folder, format: ListFormat) -> Result<()> {
    let index = folder.index()?;
    let entries: Vec<&Entry> = index.entries().collect();
    match format {
        ListFormat::Json => {
            let text = serde_json::to_string_pretty(&entries).context("cannot write JSON")?;
            println!("{text}");
        }
        ListFormat::Table => print!("{}", table(&entries)),
    }
    Ok(())
}

fn table(entries: &[&Entry]) -> String {
    let head = ["NAME", "VERSION", "ARCH", "SIZE", "SHA256", "FROM"].map(str::to_owned);
    let rows: Vec<[String; 6]> = entries.iter().map(|entry| row(entry)).collect();
    let all = || std::iter::once(&head).chain(&rows);
    let widths: [usize; 6] =
        std::array::from_fn(|column| all().map(|row| columns(&row[column])).max().unwrap_or_default());
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| padded(cell, width));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    all().map(line).collect()
}

fn row(entry: &Entry) -> [String; 6] {
    let from: Vec<&str> =
        entry.file.iter().map(|_| "file").chain(entry.urls.iter().map(String::as_str)).collect();
    [
        entry.name.clone(),
        entry.version.clone(),
        entry.arch.to_string(),
        entry.size.to_string(),
        entry.sha256.short(),
        from.join(", "),
    ]
}

fn verify(folder: &Folder) -> Result<()> {
    let faults = folder.verify()?;
    for fault in &faults {
        println!("{}: {}", fault.title, fault.problem);
    }
    ensure!(faults.is_empty(), "{} of the files in {} are not right", faults.len(), folder.path().display());
    println!("{} entries, every file is right", folder.index()?.entries().count());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_artifacts::Arch;

    #[test]
    fn the_table_has_a_line_for_each() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let file = place.path().join("k3s");
        std::fs::write(&file, "abc").unwrap();
        let addition = Addition { name: "k3s".to_owned(), version: "v1".to_owned(), arch: Arch::Amd64 };
        let entry = folder.add_file(addition.clone(), &file, None).unwrap();
        folder.add_url(addition, "https://far/k3s".to_owned(), entry.sha256, 3).unwrap();
        let index = folder.index().unwrap();
        let table = table(&index.entries().collect::<Vec<_>>());
        assert_eq!(
            table,
            "NAME   VERSION   ARCH    SIZE   SHA256             FROM\n\
             k3s    v1        amd64   3      ba7816bf8f01cfea   file, https://far/k3s\n"
        );
    }
}
