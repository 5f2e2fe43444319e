package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// The attributes of mounts, see mount_setattr(2).
const (
	attrReadOnly  = 1
	attrNoSetuid  = 2
	attrNoDevices = 4
	sysMountAttr  = 442 // the same on every architecture
)

// systemPaths are the paths that a shell and system programs need to read. Of /etc only files
// without secrets are included.
func systemPaths() []string {
	paths := []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/opt", "/nix/store", "/gnu/store", "/run/current-system"}
	for _, name := range []string{
		"alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "default/locale",
		"fonts", "gai.conf", "gitconfig", "group", "host.conf", "hosts", "inputrc", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
		"dotnet", "ImageMagick-6", "ImageMagick-7", "maven/logging", "maven/m2.conf", "R",
		"locale.alias", "locale.conf", "localtime", "lsb-release", "magic", "mailcap", "manpath.config", "mime.types", "nsswitch.conf",
		"os-release", "passwd", "perl", "pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "profile", "profile.d", "protocols",
		"python3", "resolv.conf", "rpc", "services", "shells", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "static", "terminfo", "timezone", "vimrc", "wgetrc", "xattr.conf",
	} {
		paths = append(paths, "/etc/"+name)
	}
	return paths
}

// devices are the devices that a command may use.
func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// processorPath describes the processors; a runtime counts them there.
const processorPath = "/sys/devices/system/cpu"

// terminalPath is the directory of pseudo-terminals.
const terminalPath = "/dev/pts"

// temporaryPaths are the directories of a view that show the temporary files of the command.
func temporaryPaths() []string { return []string{"/tmp", "/var/tmp"} }

// temporaryAbove returns the writable directory of every view that path is below; empty: none.
func temporaryAbove(path string) string {
	for _, dir := range append(temporaryPaths(), "/dev/shm") {
		if path = filepath.Clean(path); path != dir && within(dir, path) {
			return dir
		}
	}
	return ""
}

// buildView creates the command's own file system and enters it. It contains what the system and
// the order allow to be read, the workspace, the command's home, its temporary files as /tmp, a
// /proc and the harmless devices, and nothing else.
func buildView(o Order) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Any directory will do for the root: the mount hides it from now on, but only in this
	// namespace.
	v := view{root: temporaryOf(string(o.Scratch)), shared: o.Profile != Isolated, covers: map[string]bool{}}
	writable := map[string]*os.File{} // opened before the new root hides them
	for _, dir := range []string{string(o.Workspace), homeOf(string(o.Scratch)), v.root} {
		f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		writable[dir] = f
	}
	if err := syscall.Mount("perdure", v.root, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=4m,mode=755"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	// The directory that contains the new root is bound flat, so that the new root does not appear
	// in it. Later mounts hide earlier ones, so the workspace comes last.
	write := func(dir, to string) error {
		path := fmt.Sprintf("/proc/self/fd/%d", writable[dir].Fd())
		return v.bind(mount{from: path, to: to, attributes: attrNoSetuid | attrNoDevices, nonRecursive: dir != string(o.Workspace)})
	}
	for _, to := range temporaryPaths() {
		if err := write(temporaryOf(string(o.Scratch)), to); err != nil {
			return err
		}
	}
	if err := v.kernelFiles(o.Limits); err != nil {
		return err
	}
	if err := v.readOnly(append(systemPaths(), append(o.Reads, processorPath)...)); err != nil {
		return err
	}
	if err := v.hide(o.Sockets); err != nil {
		return err
	}
	home := homeOf(string(o.Scratch))
	if err := errors.Join(write(home, home), write(string(o.Workspace), string(o.Workspace))); err != nil {
		return err
	}
	return v.enter()
}

// view is a file system under construction.
type view struct {
	root   string
	shared bool            // the pid namespace is that of the machine, and with it /proc
	covers map[string]bool // directories of our own in /tmp and the like, for mount points
}

func (v view) at(path string) string { return filepath.Join(v.root, path) }

// makePoint creates the mount point of a file or directory.
func (v view) makePoint(to string, isDir bool) error {
	place, rel := v.root, strings.TrimPrefix(filepath.Clean(to), "/")
	if dir := temporaryAbove(to); dir != "" {
		place, rel = v.at(dir), strings.TrimPrefix(filepath.Clean(to), dir+"/")
		if first, rest, ok := strings.Cut(rel, "/"); ok {
			if err := v.cover(place, first); err != nil {
				return err
			}
			place, rel = filepath.Join(place, first), rest
		}
	}
	root, err := os.OpenRoot(place) // it follows no links that lead outside
	if err != nil {
		return err
	}
	defer root.Close()
	if isDir {
		return root.MkdirAll(rel, 0o755)
	}
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(rel, os.O_RDONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// cover mounts a directory of our own on the entry name of /tmp or the like, once. Below it are the
// mount points of what the machine has there; everything else is read-only, so that what a command
// writes beside its workspace is refused, and not stored where nobody looks for it. An earlier
// command may have left a link with that name, which is not followed.
func (v view) cover(dir, name string) error {
	path := filepath.Join(dir, name)
	if v.covers[path] {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	target := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if err := syscall.Mount("perdure", target, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=1m,mode=755"); err != nil {
		return fmt.Errorf("cover %s: %w", path, err)
	}
	v.covers[path] = true
	return nil
}

// readOnly shows paths as they are outside, but read-only.
func (v view) readOnly(paths []string) error {
	slices.Sort(paths)
	for i, path := range paths {
		path = filepath.Clean(path)
		if slices.ContainsFunc(paths[:i], func(above string) bool { return within(above, path) }) {
			continue
		}
		st, err := os.Lstat(path)
		if err != nil {
			continue // missing, or not accessible
		}
		if st.Mode()&fs.ModeSymlink != 0 && temporaryAbove(path) == "" && v.link(path) {
			continue
		}
		if err := v.bind(mount{from: path, to: path, attributes: attrReadOnly | attrNoSetuid | attrNoDevices}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// hide covers files that are visible by now.
func (v view) hide(paths [][]byte) error {
	for _, path := range paths {
		err := syscall.Mount(os.DevNull, v.at(string(path)), "", syscall.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	return nil
}

// link copies a symbolic link whose target is visible, such as /bin. For another link the caller
// shows the target itself.
func (v view) link(path string) bool {
	to, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(filepath.Join(filepath.Dir(path), to), "/usr/") && !strings.HasPrefix(to, "/usr/") {
		return false
	}
	return os.MkdirAll(filepath.Dir(v.at(path)), 0o755) == nil && os.Symlink(to, v.at(path)) == nil
}

// mount shows the file or directory from at the path to, including the mounts below it unless flat
// is set.
type mount struct {
	from, to     string
	attributes   uint64
	nonRecursive bool
}

func (v view) bind(m mount) error {
	st, err := os.Stat(m.from)
	if err != nil {
		return err
	}
	target := v.at(m.to)
	if err := v.makePoint(m.to, st.IsDir()); err != nil {
		return fmt.Errorf("create the mount point of %s: %w", m.to, err)
	}
	flags := uintptr(syscall.MS_BIND)
	if !m.nonRecursive {
		flags |= syscall.MS_REC
	}
	if err := syscall.Mount(m.from, target, "", flags, ""); err != nil {
		return fmt.Errorf("bind %s: %w", m.to, err)
	}
	if err := setAttributes(target, m.attributes, true); err != nil {
		return fmt.Errorf("restrict the mount of %s: %w", m.to, err)
	}
	return nil
}

// The size of /dev/shm: a part of the memory limit, but at least a minimum.
const (
	minSharedBytes = 64 << 20
	sharedPart     = 4
)

// kernelFiles mounts /proc of our pid namespace, the devices and /dev/shm.
func (v view) kernelFiles(l Limits) error {
	const quiet = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	for _, dir := range []string{"/proc", "/dev/shm"} {
		if err := os.MkdirAll(v.at(dir), 0o755); err != nil {
			return err
		}
	}
	for _, device := range devices() {
		if err := v.bind(mount{from: device, to: device, attributes: attrNoSetuid}); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, v.at("/dev/"+name)); err != nil {
			return err
		}
	}
	v.terminals()
	size := fmt.Sprintf("size=%d,mode=1777", max(l.MemoryBytes/sharedPart, minSharedBytes))
	if err := syscall.Mount("shm", v.at("/dev/shm"), "tmpfs", quiet, size); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if v.shared {
		return v.bind(mount{from: "/proc", to: "/proc", attributes: attrNoSetuid | attrNoDevices})
	}
	if err := syscall.Mount("proc", v.at("/proc"), "proc", quiet, ""); err != nil {
		return fmt.Errorf("mount /proc (a container that covers parts of its own /proc forbids it): %w", err)
	}
	return nil
}

// terminals gives the command pseudo-terminals of its own, for programs that start others in one.
// Where the kernel refuses, the command has none.
func (v view) terminals() {
	dir := v.at(terminalPath)
	if os.Mkdir(dir, 0o755) == nil &&
		syscall.Mount("devpts", dir, "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") == nil {
		_ = os.Symlink("pts/ptmx", v.at("/dev/ptmx")) // fails only if there is one
	}
}

// enter makes the view the root, and detaches the old root.
func (v view) enter() error {
	for path := range v.covers {
		if err := setAttributes(path, attrReadOnly, false); err != nil {
			return err
		}
	}
	if err := os.Chdir(v.root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot root: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return setAttributes("/", attrReadOnly, false)
}

// setAttributes adds attributes to the mount at path, and with deep to all mounts below it.
func setAttributes(path string, set uint64, deep bool) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	const here, recursive = -100, 0x8000 // AT_FDCWD, AT_RECURSIVE
	attr := struct{ set, clear, propagation, user uint64 }{set: set}
	var flags uintptr
	if deep {
		flags = recursive
	}
	at := here
	_, _, errno := syscall.Syscall6(sysMountAttr, uintptr(at), uintptr(unsafe.Pointer(p)), flags,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
