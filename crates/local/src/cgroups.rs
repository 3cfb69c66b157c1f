//! Control groups of sandboxes: of version 2 where one was delegated to the server, of version 1 where it may make them.
//!
//! A group that others live in as well is theirs to divide, so groups are made in two places only: below the root of a
//! hierarchy, and below a group in which the server is alone, as in `systemd-run --user --scope -p Delegate=yes`. With
//! version 2 the server then moves into a group beside its sandboxes', since a group that has both processes and limits for
//! its children is refused by the kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::Limits;

/// What the names of our groups begin with.
const PREFIX: &str = "oncebox-";
/// Where the server itself is, with version 2.
const SERVER: &str = "oncebox-server";
/// The period over which the kernel counts the use of processors, in microseconds: its own default.
const PERIOD: u64 = 100_000;

/// Where the groups of sandboxes are made, for each kind of limit; or why there is no such place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) cpu: Result<Place, String>,
    pub(crate) memory: Result<Place, String>,
    pub(crate) pids: Result<Place, String>,
}

/// A group below which sandboxes get theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    folder: PathBuf,
    second: bool,
}

/// The groups of one sandbox. Dropping them removes what is empty.
#[derive(Debug, Default)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
}

impl Default for Groups {
    /// No place at all.
    fn default() -> Self {
        let nowhere = || Err("nobody looked for one".to_owned());
        Self { cpu: nowhere(), memory: nowhere(), pids: nowhere() }
    }
}

impl Groups {
    /// Looks for places for the limits there are, and removes groups that servers left which were killed. Blocks.
    pub(crate) fn find(limits: &Limits) -> Self {
        let second = Second::open();
        let place = |wanted: bool, controller: &str| {
            if !wanted {
                return Err("no limit is set".to_owned());
            }
            match &second {
                Some(second) if second.has(controller) => second.place(controller),
                _ => first(controller),
            }
        };
        let groups = Self {
            cpu: place(limits.cpu_millis.is_some(), "cpu"),
            memory: place(limits.memory.is_some(), "memory"),
            pids: place(limits.pids.is_some(), "pids"),
        };
        for place in [&groups.cpu, &groups.memory, &groups.pids].into_iter().flatten() {
            sweep(&place.folder);
        }
        groups
    }

    /// Makes the groups of one sandbox.
    pub(crate) fn make(&self, limits: &Limits) -> io::Result<Group> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut group = Group::default();
        if let (Some(millis), Ok(place)) = (limits.cpu_millis, &self.cpu) {
            let quota = (u64::from(millis) * PERIOD / 1000).max(1000);
            group.enter(place, &name, |second| match second {
                true => vec![("cpu.max", format!("{quota} {PERIOD}"))],
                false => vec![("cpu.cfs_period_us", PERIOD.to_string()), ("cpu.cfs_quota_us", quota.to_string())],
            })?;
        }
        if let (Some(bytes), Ok(place)) = (limits.memory, &self.memory) {
            group.enter(place, &name, |second| {
                vec![(if second { "memory.max" } else { "memory.limit_in_bytes" }, bytes.to_string())]
            })?;
            // Not there where the kernel does not count what is swapped out.
            let (swap, most) =
                if place.second { ("memory.swap.max", 0) } else { ("memory.memsw.limit_in_bytes", bytes) };
            let _ = fs::write(place.folder.join(&name).join(swap), most.to_string());
        }
        if let (Some(count), Ok(place)) = (limits.pids, &self.pids) {
            group.enter(place, &name, |_| vec![("pids.max", count.to_string())])?;
        }
        Ok(group)
    }
}

impl Group {
    fn enter(
        &mut self,
        place: &Place,
        name: &str,
        values: impl FnOnce(bool) -> Vec<(&'static str, String)>,
    ) -> io::Result<()> {
        let folder = place.folder.join(name);
        if !self.folders.contains(&folder) {
            // A name is given once by a process: one that is there was left by a killed server that had this number.
            let made = fs::create_dir(&folder).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => fs::remove_dir(&folder).and_then(|()| fs::create_dir(&folder)),
                _ => Err(error),
            });
            made.map_err(|error| named(&error, &folder))?;
            self.folders.push(folder.clone());
        }
        for (file, value) in values(place.second) {
            let file = folder.join(file);
            fs::write(&file, value).map_err(|error| named(&error, &file))?;
        }
        Ok(())
    }

    /// The files that a process writes `0` to in order to be in the groups.
    pub(crate) fn doors(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for folder in &self.folders {
            // One that still has a process stays, and the next server that starts removes it.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Moves this process into groups, by their doors.
pub(crate) fn join<'d>(doors: impl IntoIterator<Item = &'d Path>) -> io::Result<()> {
    doors.into_iter().try_for_each(|door| fs::write(door, "0").map_err(|error| named(&error, door)))
}

fn named(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The server's group of the one hierarchy of version 2.
struct Second {
    folder: PathBuf,
    controllers: String,
}

impl Second {
    fn open() -> Option<Self> {
        let folder = own_folder(&mounts(), |mount| mount.kind == "cgroup2", |controllers| controllers.is_empty())?.0;
        let folder = if folder.ends_with(SERVER) { folder.parent()?.to_owned() } else { folder };
        let controllers = fs::read_to_string(folder.join("cgroup.controllers")).ok()?;
        Some(Self { folder, controllers })
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.split_whitespace().any(|word| word == controller)
    }

    fn place(&self, controller: &str) -> Result<Place, String> {
        let folder = &self.folder;
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        // The root of the machine's hierarchy has no type.
        let root = !folder.join("cgroup.type").exists();
        if !root {
            // Empty once the server has moved.
            if !(alone(folder) || members(folder).is_empty()) {
                return Err(format!("the group {} is not the server's alone", folder.display()));
            }
            let server = folder.join(SERVER);
            if !server.is_dir() {
                fs::create_dir(&server).map_err(failed)?;
            }
            join([server.join("cgroup.procs").as_path()]).map_err(failed)?;
        }
        let switch = folder.join("cgroup.subtree_control");
        fs::write(&switch, format!("+{controller}")).map_err(|error| named(&error, &switch).to_string())?;
        tried(Place { folder: folder.clone(), second: true })
    }
}

/// The place for a controller that has a hierarchy of version 1.
fn first(controller: &str) -> Result<Place, String> {
    let of = |list: &str| list.split(',').any(|word| word == controller);
    let own = own_folder(&mounts(), |mount| mount.kind == "cgroup" && of(&mount.options), of);
    let Some((folder, root)) = own else { return Err(format!("no hierarchy of control groups has {controller}")) };
    if !root && !alone(&folder) {
        return Err(format!("the group {} is not the server's alone", folder.display()));
    }
    tried(Place { folder, second: false })
}

/// A place, if a group can be made there.
fn tried(place: Place) -> Result<Place, String> {
    let trial = place.folder.join(format!("{PREFIX}{}-trial", std::process::id()));
    match fs::create_dir(&trial) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(named(&error, &trial).to_string()),
        _ => {}
    }
    // Another server of this process may have been quicker.
    let _ = fs::remove_dir(&trial);
    Ok(place)
}

fn members(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn alone(folder: &Path) -> bool {
    members(folder) == [std::process::id()]
}

/// Removes the groups of servers that are no more. Those that have processes are refused by the kernel.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner);
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The server that made a group of that name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

struct Mounted {
    root: String,
    point: PathBuf,
    kind: String,
    options: String,
}

fn mounts() -> Vec<Mounted> {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(mounted).collect()
}

/// A line of `/proc/self/mountinfo`.
fn mounted(line: &str) -> Option<Mounted> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?.to_owned(), left.next()?.into());
    let mut right = right.split(' ');
    let kind = right.next()?.to_owned();
    Some(Mounted { root, point, kind, options: right.nth(1)?.to_owned() })
}

/// The folder of this process's group in a hierarchy, and whether it is the hierarchy's root.
fn own_folder(
    mounts: &[Mounted],
    mount: impl Fn(&Mounted) -> bool,
    line: impl Fn(&str) -> bool,
) -> Option<(PathBuf, bool)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|group| {
        let (controllers, path) = group.split_once(':')?.1.split_once(':')?;
        line(controllers).then(|| path.to_owned())
    })?;
    mounts.iter().filter(|mounted| mount(mounted)).find_map(|mounted| below(mounted, &path))
}

/// Where a mount shows a group, and whether that is the root of what there is to see.
fn below(mounted: &Mounted, path: &str) -> Option<(PathBuf, bool)> {
    let inner = Path::new(path).strip_prefix(&mounted.root).ok()?;
    if inner.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
        return None;
    }
    Some((mounted.point.join(inner), path == "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_below_its_mount() {
        let line = "36 31 0:33 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids";
        let mount = mounted(line).unwrap();
        assert_eq!((mount.kind.as_str(), mount.options.as_str()), ("cgroup", "rw,pids"));
        assert_eq!(below(&mount, "/").unwrap(), ("/sys/fs/cgroup/pids/".into(), true));
        assert_eq!(below(&mount, "/a/b").unwrap(), ("/sys/fs/cgroup/pids/a/b".into(), false));
        assert_eq!(below(&mount, "/../x"), None, "a group above what the mount shows");
        let part = Mounted { root: "/box".to_owned(), ..mount };
        assert_eq!(below(&part, "/box/in").unwrap().0, Path::new("/sys/fs/cgroup/pids/in"));
        assert_eq!(below(&part, "/other"), None);
    }

    #[test]
    fn limits_are_written_in_the_words_of_each_version() {
        for second in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let place = || Ok(Place { folder: folder.path().to_owned(), second });
            let groups = Groups { cpu: place(), memory: place(), pids: place() };
            let limits = Limits { cpu_millis: Some(1500), memory: Some(1 << 20), pids: Some(7) };
            let group = groups.make(&limits).unwrap();
            let [inside] = &group.folders[..] else { panic!("{group:?}") };
            let read = |file: &str| fs::read_to_string(inside.join(file)).unwrap();
            assert_eq!(read("pids.max"), "7");
            if second {
                assert_eq!([read("cpu.max"), read("memory.max")], ["150000 100000", "1048576"]);
                assert_eq!(read("memory.swap.max"), "0");
            } else {
                assert_eq!([read("cpu.cfs_quota_us"), read("memory.limit_in_bytes")], ["150000", "1048576"]);
            }
        }
    }

    #[test]
    fn a_name_tells_its_owner() {
        assert_eq!(owner("oncebox-12-3"), Some(12));
        assert_eq!(owner("oncebox-server"), None);
        assert_eq!(owner("user.slice"), None);
    }
}
