package shell

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Programs are programs outside of the system's directories that confined commands can use.
type Programs struct {
	Reads []string // for Config.Reads
	Env   []string // for Config.Env: that of a Config without one, and the variables of version managers
}

// UserPrograms finds the programs that the PATH of this process names below the home directory and
// elsewhere outside of the system's directories: the directories of PATH, the installations that
// they belong to, and what version managers need.
//
// It never names the home directory itself, a directory above it, or what is in one of the hidden
// directories, and of an installation nothing that looks like a secret.
func UserPrograms(hidden ...string) Programs {
	home, _ := os.UserHomeDir() // empty: no directory is below it
	f := programFinder{home: realOr(home), seen: map[string]bool{}}
	for _, dir := range append(hidden, f.home) {
		if dir != "" {
			f.hidden = append(f.hidden, realOr(dir))
		}
	}
	env := safeEnv()
	path := ""
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	dirs := filepath.SplitList(path)
	for _, dir := range dirs {
		f.addDir(filepath.Clean(dir))
	}
	for _, m := range managers() {
		env = append(env, f.addManager(m, dirs)...)
	}
	slices.Sort(f.reads)
	return Programs{Reads: slices.Compact(f.reads), Env: env}
}

// manager is a version manager: its programs find the versions by a variable, or below HOME, which
// a confined command has elsewhere.
type manager struct {
	variable string
	dir      string // its default below the home directory
	trigger  string // the directory in PATH below which its programs are; empty: dir
}

func managers() []manager {
	return []manager{
		{"PYENV_ROOT", ".pyenv", ""}, {"RBENV_ROOT", ".rbenv", ""}, {"NODENV_ROOT", ".nodenv", ""}, {"GOENV_ROOT", ".goenv", ""},
		{"JENV_ROOT", ".jenv", ""}, {"VOLTA_HOME", ".volta", ""}, {"ASDF_DATA_DIR", ".asdf", ""}, {"NVM_DIR", ".nvm", ""},
		{"SDKMAN_DIR", ".sdkman", ""}, {"MISE_DATA_DIR", ".local/share/mise", ""}, {"ELAN_HOME", ".elan", ""},
		{"RUSTUP_HOME", ".rustup", ".cargo"},
	}
}

// programFinder collects what UserPrograms returns.
type programFinder struct {
	home   string // empty: unknown
	hidden []string
	reads  []string
	seen   map[string]bool // of addDir
}

// addManager adds a version manager that has a directory in PATH, and returns its variable.
func (f *programFinder) addManager(m manager, dirs []string) []string {
	if f.home == "" {
		return nil
	}
	root := cmp.Or(os.Getenv(m.variable), filepath.Join(f.home, m.dir))
	trigger := root
	if m.trigger != "" {
		trigger = filepath.Join(f.home, m.trigger)
	}
	isUsed := slices.ContainsFunc(dirs, func(dir string) bool { return filepath.IsAbs(dir) && isBelow(realOr(trigger), realOr(dir)) })
	if st, err := os.Stat(root); !isUsed || err != nil || !st.IsDir() || !f.mayShow(root) {
		return nil
	}
	f.addWithoutSecrets(root)
	return []string{m.variable + "=" + root}
}

// addDir adds a directory with programs, the installation that it belongs to, and the programs that
// its symbolic links name.
func (f *programFinder) addDir(dir string) {
	if f.seen[dir] || !filepath.IsAbs(dir) || isSystem(dir) || !f.mayShow(dir) || isBelow("/mnt", dir) {
		return // below /mnt WSL has the programs of Windows, which run outside of any sandbox
	}
	f.seen[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	f.reads = append(f.reads, dir)
	if isProgramDir(dir) && f.isInstallation(filepath.Dir(dir)) {
		f.addWithoutSecrets(filepath.Dir(dir))
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil || isSystem(target) {
			continue
		}
		st, err := os.Stat(target)
		switch {
		case err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		case isProgramDir(filepath.Dir(target)):
			f.addDir(filepath.Dir(target))
		case f.mayShow(target):
			f.reads = append(f.reads, target)
		}
	}
}

// addWithoutSecrets adds a directory: as a whole, or if something directly in it looks like a
// secret, everything else.
func (f *programFinder) addWithoutSecrets(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return looksSecret(e.Name()) }) {
		f.reads = append(f.reads, dir)
		return
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); !looksSecret(e.Name()) && f.mayShow(path) {
			f.reads = append(f.reads, path)
		}
	}
}

// mayShow reports whether a path neither contains a hidden one nor lies in one. In the home
// directory itself there may be programs.
func (f *programFinder) mayShow(path string) bool {
	real := realOr(path)
	for _, dir := range f.hidden {
		if isBelow(real, dir) || dir != f.home && isBelow(dir, real) {
			return false
		}
	}
	return true
}

// isInstallation reports whether a directory holds programs with their libraries, and is not one of
// those below the home directory in which a user has everything.
func (f *programFinder) isInstallation(dir string) bool {
	const minDepth = 2
	if strings.Count(filepath.Clean(dir), "/") < minDepth || !f.mayShow(dir) || f.isPersonal(dir) {
		return false
	}
	for _, name := range []string{"lib", "lib64", "libexec", "share", "versions", "installs", ".bin"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil && st.IsDir() {
			return true
		}
	}
	return false
}

// isPersonal reports whether a directory holds what a user's programs store, keys among it: a home
// directory, also that of another user, a directory in which a user has everything, or one with
// keys.
func (f *programFinder) isPersonal(dir string) bool {
	real := realOr(dir)
	above := filepath.Dir(real)
	if above == "/home" || real == "/root" || f.home != "" && above == filepath.Dir(f.home) {
		return true
	}
	for _, everything := range []string{"/.local", "/.local/share", "/.local/state", "/.cache"} {
		if strings.HasSuffix(real, everything) {
			return true
		}
	}
	private := []string{".config", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".mozilla"}
	return slices.ContainsFunc(strings.Split(real, "/"), func(name string) bool { return slices.Contains(private, name) })
}

// isProgramDir reports whether the name of a directory says that it holds the programs of what is
// above it.
func isProgramDir(dir string) bool {
	return slices.Contains([]string{"bin", "sbin", "shims", ".bin"}, filepath.Base(dir))
}

// isSystem reports whether every profile shows a path anyway.
func isSystem(path string) bool {
	return isBelowAny([]string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix/store", "/gnu/store", "/run/current-system"}, path)
}

// looksSecret reports whether a file of that name may hold a credential.
func looksSecret(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"credential", "secret", "token", "password", "auth", "config", ".env", ".pem", ".key", "id_rsa", "id_ed25519"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, "rc")
}

// realOr returns the real path, or the path itself if it does not exist.
func realOr(path string) string {
	if path == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}
